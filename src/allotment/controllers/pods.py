"""What controllers ask about pods, and how they make them from a template."""

from __future__ import annotations

from typing import Any

from allotment.cluster.cached_item import Item
from allotment.cluster.clock import Clock
from allotment.controllers.conditions import condition_of, is_true
from allotment.model.trees import Tree


def phase_of(pod: Item[Any]) -> str:
    """``Pending`` where nobody has said anything yet."""
    phase: str = pod.status.get("phase") or "Pending"
    return phase


def is_finished(pod: Item[Any]) -> bool:
    """Succeeded or Failed: its containers will not run again."""
    return phase_of(pod) in ("Succeeded", "Failed")


def is_active(pod: Item[Any]) -> bool:
    """Neither finished nor on its way out."""
    return not is_finished(pod) and not pod.deleting


def is_ready(pod: Item[Any]) -> bool:
    """Whether its Ready condition says so."""
    return is_true(pod.status.get("conditions"), "Ready")


def ready_for(pod: Item[Any], seconds: float, clock: Clock) -> float:
    """How long until it has been ready for so many seconds: 0 or less when it has; it must be ready."""
    if not seconds:
        return 0.0
    condition = condition_of(pod.status.get("conditions"), "Ready")
    since = condition.get("lastTransitionTime") if condition else None
    return clock.left(since, seconds) if since else seconds


def restarts(pod: Item[Any]) -> int:
    """Restarts of its containers, all together."""
    return sum(status.get("restartCount", 0) for status in pod.status.get("containerStatuses") or ())


def owner_reference(owner: Tree, *, blocks: bool = True) -> Tree:
    """The reference that makes an object the controlling owner of another."""
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
    """The pod that a workload's template makes, with a generated name where none is given."""
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
