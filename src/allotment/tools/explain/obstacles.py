"""Obstacles that prevent scheduling on any node: a claim, template or class that is missing or invalid.

Kubernetes keeps such pods pending; most of them get neither a condition nor an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from allotment.engine.diagnosis.published_names import did_you_mean
from allotment.engine.refusal import CODES, AllocationRefusal, Diagnosis, SuggestedChange
from allotment.model.core import PodResourceClaim
from allotment.model.meta import ObjectKey
from allotment.model.pod_groups import not_found_message
from allotment.model.resource import ResourceClaimSpec
from allotment.model.validation import FieldError
from allotment.phrases import listed
from allotment.tools.explain import fixes
from allotment.tools.explain.input import ExplainInput


class Obstacle(NamedTuple):
    """The reason why a pod cannot be scheduled, and changes that may help; verify them before reporting."""

    reasons: Diagnosis
    changes: tuple[SuggestedChange, ...] = ()


def refused_everywhere(
    code: str, summary: str, claim: str = "", kubernetes: str = "", notes: tuple[str, ...] = ()
) -> Diagnosis:
    """A diagnosis with one reason for all nodes."""
    refused = AllocationRefusal(
        code=code, summary=summary, claim=claim, notes=notes, kubernetes=kubernetes or CODES[code].kubernetes
    )
    return Diagnosis(headline=refused)


def too_many_consumers(claim: str, users: int) -> Diagnosis:
    """The reason if a claim is reserved for the maximum number of consumers."""
    return refused_everywhere("claim-in-use", f"claim {claim} is reserved for {users} consumers, which is the maximum")


def group_missing(key: ObjectKey, known: Iterable[ObjectKey], kubernetes: str = "") -> Diagnosis:
    """The reason if a pod names a PodGroup that does not exist in its namespace."""
    existing = [k.name for k in known if k.namespace == key.namespace]
    summary = f'PodGroup "{key.name}" does not exist in namespace {key.namespace}.{did_you_mean(key.name, existing)}'
    return refused_everywhere(
        "group-missing", summary.rstrip("."), kubernetes=kubernetes or not_found_message(key.name)
    )


#: Kinds that an entry of ``spec.resourceClaims`` can refer to, and their fields.
REFERENCE_FIELDS: Mapping[str, str] = {
    "ResourceClaim": "resourceClaimName", "ResourceClaimTemplate": "resourceClaimTemplateName",
}  # fmt: skip
_MAX_NAMES = 3


def reference_missing(
    kind: str,
    entries: Sequence[PodResourceClaim],
    number: int,
    key: ObjectKey,
    known: Mapping[str, Iterable[ObjectKey]],
    pod: tuple[str, str],
) -> Obstacle:
    """The obstacle if entry ``number`` refers to a claim or template that does not exist in the pod's namespace.

    ``known`` are the existing claims and templates by kind; ``pod`` is the object that contains the pod, and the path
    there.
    """
    entry, keys = entries[number], list(known[kind])
    elsewhere = sorted(k.namespace for k in keys if k.name == key.name and k.namespace != key.namespace)
    if elsewhere:
        summary = (
            f'{kind} "{key.name}" is in namespace {elsewhere[0]}, but the pod is in {key.namespace}; '
            "a pod can use only objects in its own namespace"
        )
        reasons = refused_everywhere("wrong-namespace", summary, entry.name, _kubernetes(kind, key))
        return Obstacle(reasons, tuple(fixes.move_to_namespace(kind, key, elsewhere)))
    existing = sorted(k.name for k in keys if k.namespace == key.namespace)
    code = "template-missing" if kind == "ResourceClaimTemplate" else "claim-missing"
    summary = f'{kind} "{key.name}" does not exist in namespace {key.namespace}'
    other = next(name for name in REFERENCE_FIELDS if name != kind)
    if key in set(known[other]):
        summary += f'; a {other} "{key.name}" exists: refer to it with {REFERENCE_FIELDS[other]}'
        changes = fixes.change_reference_kind(REFERENCE_FIELDS[kind], REFERENCE_FIELDS[other], number, entries, pod)
    else:
        summary += f".{did_you_mean(key.name, existing) or _existing(existing)}"
        changes = tuple(fixes.correct_reference(REFERENCE_FIELDS[kind], number, key.name, existing, pod))
    return Obstacle(refused_everywhere(code, summary.rstrip("."), entry.name, _kubernetes(kind, key)), changes)


def _existing(names: Sequence[str]) -> str:
    """The existing names, with a leading space; empty if there are none or too many."""
    return f" Existing: {listed(names)}" if 0 < len(names) <= _MAX_NAMES else ""


def _kubernetes(kind: str, key: ObjectKey) -> str:
    if kind == "ResourceClaim":
        return f'could not find ResourceClaim "{key}" (the pod stays Pending without an event)'
    return CODES["template-missing"].kubernetes


def invalid(objects: ExplainInput, kind: str, key: ObjectKey) -> Obstacle | None:
    """The obstacle if the API server rejects an object, otherwise None."""
    errors = objects.refused.get((kind, key))
    if not errors:
        return None
    return Obstacle(
        _of_errors(kind, str(key), errors), tuple(fixes.admission_fixes(kind, key, errors, objects.classes))
    )


def _of_errors(kind: str, name: str, errors: list[FieldError]) -> Diagnosis:
    first = errors[0]
    more = tuple(str(e).splitlines()[0] for e in errors[1:6])
    if first.path.endswith("adminAccess") and "admin access" in first.detail:
        summary = f"{kind} {name} requests admin access, which its namespace does not allow"
        return refused_everywhere("admin-access-not-allowed", summary, name, first.detail, more)
    where = f"{kind} {name}: {first.path}"
    if first.path.endswith(".expression"):
        lines = first.detail.splitlines() or [first.body]
        return refused_everywhere("selector-invalid", f"{where}: {lines[0]}", name, "", (*lines[1:], *more))
    body = first.body.splitlines()[0]
    return refused_everywhere(
        "invalid-manifest", f"{where}: {body}", name, f"The {kind} is invalid: {first.path}: {body}", more
    )


def invalid_class(objects: ExplainInput, spec: ResourceClaimSpec) -> Obstacle | None:
    """The obstacle if the API server rejects a class that the claim names, otherwise None."""
    for request in spec.devices.requests:
        for request_spec in (*((request.exactly,) if request.exactly is not None else ()), *request.first_available):
            found = invalid(objects, "DeviceClass", ObjectKey("", request_spec.device_class_name))
            if found is not None:
                return found
    return None
