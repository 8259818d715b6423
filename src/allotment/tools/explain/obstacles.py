"""What keeps a pod from being tried at all: a claim, template or class that is missing, elsewhere, or invalid.

Kubernetes parks such pods; most of them get neither a condition nor an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from allotment.engine.diagnosis.published_names import did_you_mean
from allotment.engine.refusal import CODES, Change, Diagnosis, Refused
from allotment.model.core import PodResourceClaim
from allotment.model.meta import ObjectKey
from allotment.model.pod_groups import not_found_message
from allotment.model.resource import ResourceClaimSpec
from allotment.model.validation import FieldError
from allotment.phrases import listed
from allotment.tools.explain import fixes
from allotment.tools.explain.input import Input


class Obstacle(NamedTuple):
    """Why a pod cannot be tried, and changes that may help; each is to be tried before it is told."""

    reasons: Diagnosis
    ways: tuple[Change, ...] = ()


def told(code: str, summary: str, claim: str = "", kubernetes: str = "", notes: tuple[str, ...] = ()) -> Diagnosis:
    """A reason that holds on every node."""
    refused = Refused(
        code=code, summary=summary, claim=claim, notes=notes, kubernetes=kubernetes or CODES[code].kubernetes
    )
    return Diagnosis(headline=refused)


def taken(claim: str, users: int) -> Diagnosis:
    """A claim that has all the users that it may have."""
    return told("claim-in-use", f"claim {claim} is reserved for {users} consumers, the most there can be")


def no_group(key: ObjectKey, known: Iterable[ObjectKey]) -> Diagnosis:
    """A PodGroup that a pod names and that is not in its namespace."""
    here = [k.name for k in known if k.namespace == key.namespace]
    summary = f'PodGroup "{key.name}" does not exist in namespace {key.namespace}.{did_you_mean(key.name, here)}'
    return told("group-missing", summary.rstrip("."), kubernetes=f"{not_found_message(key.name)}")


#: What a pod's entry can name, and by which field.
FIELDS: Mapping[str, str] = {
    "ResourceClaim": "resourceClaimName", "ResourceClaimTemplate": "resourceClaimTemplateName",
}  # fmt: skip
_NAMED = 3


def missing(
    kind: str,
    entries: Sequence[PodResourceClaim],
    number: int,
    key: ObjectKey,
    known: Mapping[str, Iterable[ObjectKey]],
    pod: tuple[str, str],
) -> Obstacle:
    """A claim or template that entry ``number`` of the pod names and that is not in its namespace.

    ``known`` are the claims and templates that there are, by kind; ``pod`` is the object that the pod is written in,
    and where there.
    """
    entry, keys = entries[number], list(known[kind])
    elsewhere = sorted(k.namespace for k in keys if k.name == key.name and k.namespace != key.namespace)
    if elsewhere:
        summary = (
            f'{kind} "{key.name}" is in namespace {elsewhere[0]}, the pod is in {key.namespace}; '
            "a pod can only use those of its own namespace"
        )
        reasons = told("wrong-namespace", summary, entry.name, _kubernetes(kind, key))
        return Obstacle(reasons, tuple(fixes.moved(kind, key, elsewhere)))
    here = sorted(k.name for k in keys if k.namespace == key.namespace)
    code = "template-missing" if kind == "ResourceClaimTemplate" else "claim-missing"
    summary = f'{kind} "{key.name}" does not exist in namespace {key.namespace}'
    other = next(one for one in FIELDS if one != kind)
    if key in set(known[other]):
        summary += f'; a {other} "{key.name}" does, which {FIELDS[other]} would name'
        ways = fixes.of_other_kind(FIELDS[kind], FIELDS[other], number, entries, pod)
    else:
        summary += f".{did_you_mean(key.name, here) or _there(here)}"
        ways = tuple(fixes.referred(FIELDS[kind], number, key.name, here, pod))
    return Obstacle(told(code, summary.rstrip("."), entry.name, _kubernetes(kind, key)), ways)


def _there(names: Sequence[str]) -> str:
    """What there is, if that is soon said."""
    return f" There is {listed(names)}" if 0 < len(names) <= _NAMED else ""


def _kubernetes(kind: str, key: ObjectKey) -> str:
    if kind == "ResourceClaim":
        return f'could not find ResourceClaim "{key}" (the pod stays Pending without an event)'
    return CODES["template-missing"].kubernetes


def invalid(given: Input, kind: str, key: ObjectKey) -> Obstacle | None:
    """What the API server says of an object that it refuses; None if it accepts it."""
    errors = given.refused.get((kind, key))
    if not errors:
        return None
    return Obstacle(_of_errors(kind, str(key), errors), tuple(fixes.admitted(kind, key, errors, given.classes)))


def _of_errors(kind: str, name: str, errors: list[FieldError]) -> Diagnosis:
    first = errors[0]
    more = tuple(str(e).splitlines()[0] for e in errors[1:6])
    if first.path.endswith("adminAccess") and "admin access" in first.detail:
        summary = f"{kind} {name} asks for admin access, which its namespace does not allow"
        return told("admin-access-not-allowed", summary, name, first.detail, more)
    where = f"{kind} {name}: {first.path}"
    if first.path.endswith(".expression"):
        lines = first.detail.splitlines() or [first.body]
        return told("selector-invalid", f"{where}: {lines[0]}", name, "", (*lines[1:], *more))
    body = first.body.splitlines()[0]
    return told("invalid-manifest", f"{where}: {body}", name, f"The {kind} is invalid: {first.path}: {body}", more)


def invalid_class(given: Input, spec: ResourceClaimSpec) -> Obstacle | None:
    """The first class that a claim names and the API server refuses."""
    for request in spec.devices.requests:
        for asked in (*((request.exactly,) if request.exactly is not None else ()), *request.first_available):
            found = invalid(given, "DeviceClass", ObjectKey("", asked.device_class_name))
            if found is not None:
                return found
    return None
