"""Obstacles that prevent scheduling on any node: a missing PodGroup, an invalid claim, template or class.

Kubernetes keeps such pods pending; most of them get neither a condition nor an event.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from allotment.engine.diagnosis.published_names import did_you_mean
from allotment.engine.refusal import CODES, AllocationRefusal, Diagnosis, SuggestedChange
from allotment.explanation import fixes
from allotment.explanation.input import ExplainInput
from allotment.model.meta import ObjectKey
from allotment.model.pod_groups import not_found_message
from allotment.model.resource import ResourceClaimSpec
from allotment.model.validation import FieldError


class Obstacle(NamedTuple):
    """The reason why a pod cannot be scheduled, and changes that may help; verify them before reporting."""

    reasons: Diagnosis
    changes: tuple[SuggestedChange, ...] = ()


def with_first(reasons: Diagnosis, tried: Iterable[tuple[SuggestedChange, str]]) -> Diagnosis:
    """The reasons with the first change after which a node fits. ``tried``: changes with the node, empty if none."""
    changes = next(((replace(change, node=node),) for change, node in tried if node), ())
    return replace(reasons, headline=replace(reasons.headline, changes=changes))


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


def invalid(objects: ExplainInput, kind: str, key: ObjectKey) -> Obstacle | None:
    """The obstacle if the API server rejects an object, otherwise None."""
    errors = objects.refused.get((kind, key))
    if not errors:
        return None
    changes = tuple(fixes.admission_fixes(kind, key, errors, objects.classes, objects.published))
    return Obstacle(_of_errors(kind, str(key), errors), changes)


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
