"""State of pods for controllers, and creation of pods from templates."""

from __future__ import annotations

from typing import Any

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.clock import Clock
from allotment.controllers.conditions import condition_of, is_true
from allotment.model.trees import Tree


def phase_of(pod: CachedItem[Any]) -> str:
    """The phase; ``Pending`` if the status has none."""
    phase: str = pod.status.get("phase") or "Pending"
    return phase


def is_finished(pod: CachedItem[Any]) -> bool:
    """Whether the phase is Succeeded or Failed: its containers will not run again."""
    return phase_of(pod) in ("Succeeded", "Failed")


def is_active(pod: CachedItem[Any]) -> bool:
    """Whether the pod is neither finished nor being deleted."""
    return not is_finished(pod) and not pod.deleting


def is_ready(pod: CachedItem[Any]) -> bool:
    """Whether the Ready condition is True."""
    return is_true(pod.status.get("conditions"), "Ready")


def ready_for(pod: CachedItem[Any], seconds: float, clock: Clock) -> float:
    """Seconds until the pod has been ready for the given time; 0 or less if it has. Requires a ready pod."""
    if not seconds:
        return 0.0
    condition = condition_of(pod.status.get("conditions"), "Ready")
    since = condition.get("lastTransitionTime") if condition else None
    return clock.left(since, seconds) if since else seconds


def restarts(pod: CachedItem[Any]) -> int:
    """The total restarts of its containers."""
    return sum(status.get("restartCount", 0) for status in pod.status.get("containerStatuses") or ())


def owner_reference(owner: Tree, *, blocks: bool = True) -> Tree:
    """A reference that makes an object the controlling owner of another."""
    metadata = owner["metadata"]
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    if blocks:
        reference["blockOwnerDeletion"] = True
    return reference


def pod_from(template: Tree, owner: Tree, *, name: str = "", labels: dict[str, str] | None = None) -> Tree:
    """The pod of a workload's template, with a generated name if none is given."""
    metadata = template.get("metadata") or {}
    made: Tree = {"namespace": owner["metadata"]["namespace"], "ownerReferences": [owner_reference(owner)]}
    if name:
        made["name"] = name
    else:
        made["generateName"] = f"{owner['metadata']['name']}-"
    if all_labels := {**(metadata.get("labels") or {}), **(labels or {})}:
        made["labels"] = all_labels
    for field in ("annotations", "finalizers"):
        if metadata.get(field):
            made[field] = metadata[field]
    return {"kind": "Pod", "apiVersion": "v1", "metadata": made, "spec": template.get("spec") or {}}
