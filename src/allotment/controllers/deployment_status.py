"""Deployment status: replica counts and the conditions Available and Progressing.

``kubectl rollout status`` reads it: an update is complete when all replicas have the new template, no others remain and
enough are available; it has failed when there was no progress for ``progressDeadlineSeconds``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.clock import Clock
from allotment.controllers.conditions import Answer, Condition, condition_of, without_condition
from allotment.model.trees import Tree

_DONE: Final = "NewReplicaSetAvailable"
_LATE: Final = "ProgressDeadlineExceeded"
_NO_DEADLINE: Final = 2**31 - 1


def status_of(
    deployment: CachedItem[Any], sets: Sequence[CachedItem[Any]], new: CachedItem[Any] | None, *,
    wanted: int, unavailable: int,
    generation: int, clock: Clock, rolling: bool, created: bool = False, collisions: int | None = None,
) -> Tree:  # fmt: skip
    """Compute the status of a Deployment; ``generation`` is the one that was acted on.

    Progressing is evaluated only while ``rolling``: when the controller acted on the update.
    """
    old = deployment.status
    total = sum(_count(replica_set, "replicas") for replica_set in sets)
    available = sum(_count(replica_set, "availableReplicas") for replica_set in sets)
    counts = {
        "replicas": total,
        "updatedReplicas": _count(new, "replicas") if new else 0,
        "readyReplicas": sum(_count(replica_set, "readyReplicas") for replica_set in sets),
        "availableReplicas": available,
        "unavailableReplicas": max(total - available, 0),
    }
    status: Tree = {"observedGeneration": generation}
    status |= {field: count for field, count in counts.items() if count}
    status["terminatingReplicas"] = sum(_count(replica_set, "terminatingReplicas") for replica_set in sets)
    if collisions is not None:
        status["collisionCount"] = collisions
    now = clock.now()
    conditions = old.get("conditions") or []
    if available >= wanted - unavailable:
        conditions = _with_update_time(
            conditions, "Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", now
        )
    else:
        conditions = _with_update_time(
            conditions, "Available", "False", "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.", now,
        )  # fmt: skip
    if not deployment.deleting:
        conditions = _paused_or_resumed(deployment, conditions, now)
    if rolling:
        conditions = _progress(deployment, status, conditions, new, wanted, clock, created)
        found = [
            condition_of(replica_set.status.get("conditions"), "ReplicaFailure")
            for replica_set in ([new] if new else [])
        ]
        found += [condition_of(replica_set.status.get("conditions"), "ReplicaFailure") for replica_set in sets]
        failure = next((condition for condition in found if condition), None)
        if failure is None:
            conditions = without_condition(conditions, "ReplicaFailure")
        else:
            text = failure["message"]
            conditions = _with_update_time(
                conditions, "ReplicaFailure", failure["status"], failure["reason"], text, now
            )
    status["conditions"] = conditions
    return status


def deadline(deployment: CachedItem[Any], status: Tree, clock: Clock) -> float | None:
    """Seconds until an update without progress exceeds its deadline; None if there is no deadline."""
    seconds = deployment.spec.get("progressDeadlineSeconds", _NO_DEADLINE)
    progress = condition_of(status.get("conditions"), "Progressing")
    if seconds == _NO_DEADLINE or progress is None or progress["reason"] in (_DONE, _LATE) or _paused(deployment):
        return None
    return max(clock.left(progress["lastUpdateTime"], seconds), 0) + 1


def is_complete(status: Tree, wanted: int, generation: int) -> bool:
    """Whether all replicas are updated and available, and no old ones remain."""
    counts = [status.get(field, 0) for field in ("updatedReplicas", "replicas", "availableReplicas")]
    return counts == [wanted] * 3 and bool(status.get("observedGeneration", 0) >= generation)


def _progress(
    deployment: CachedItem[Any], status: Tree, conditions: list[Condition], new: CachedItem[Any] | None, wanted: int,
    clock: Clock, created: bool,
) -> list[Condition]:  # fmt: skip
    if deployment.spec.get("progressDeadlineSeconds", _NO_DEADLINE) == _NO_DEADLINE:
        return without_condition(conditions, "Progressing")
    now = clock.now()
    name = f'ReplicaSet "{new.name}"' if new else f'Deployment "{deployment.name}"'
    if new is not None and (created or condition_of(conditions, "Progressing") is None):
        reason, action = ("NewReplicaSetCreated", "Created new") if created else ("FoundNewReplicaSet", "Found new")
        return _with_update_time(
            conditions, "Progressing", "True", reason, f'{action} replica set "{new.name}"', now, moved=True
        )
    before = condition_of(conditions, "Progressing")
    done = before is not None and before["reason"] == _DONE
    if done and status.get("replicas", 0) == status.get("updatedReplicas", 0):
        return conditions  # a completed update does not miss its deadline because of scaling or a failed pod
    if is_complete(status, wanted, deployment.metadata.get("generation", 0)):
        return _with_update_time(conditions, "Progressing", "True", _DONE, f"{name} has successfully progressed.", now)
    if _has_progressed(deployment.status, status):
        text = f"{name} is progressing."
        return _with_update_time(conditions, "Progressing", "True", "ReplicaSetUpdated", text, now, moved=True)
    if before is not None and before["reason"] not in (_DONE, _LATE):
        if clock.left(before["lastUpdateTime"], deployment.spec["progressDeadlineSeconds"]) <= 0:
            return _with_update_time(
                conditions, "Progressing", "False", _LATE, f"{name} has timed out progressing.", now
            )
    return conditions


def _paused_or_resumed(deployment: CachedItem[Any], conditions: list[Condition], now: str) -> list[Condition]:
    """Set Progressing for a paused or resumed Deployment; an exceeded deadline stays reported."""
    before = condition_of(conditions, "Progressing")
    if deployment.spec.get("progressDeadlineSeconds", _NO_DEADLINE) == _NO_DEADLINE:
        return conditions
    if before is not None and before["reason"] == _LATE:
        return conditions
    if _paused(deployment):
        return _with_update_time(conditions, "Progressing", "Unknown", "DeploymentPaused", "Deployment is paused", now)
    if before is not None and before["reason"] == "DeploymentPaused":
        return _with_update_time(
            conditions, "Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed", now
        )
    return conditions


def _has_progressed(old: Tree, new: Tree) -> bool:
    """Whether there are more updated, fewer old, or more ready or available pods."""
    old_others = old.get("replicas", 0) - old.get("updatedReplicas", 0)
    new_others = new.get("replicas", 0) - new.get("updatedReplicas", 0)
    return new_others < old_others or any(
        new.get(field, 0) > old.get(field, 0) for field in ("updatedReplicas", "readyReplicas", "availableReplicas")
    )


def _paused(deployment: CachedItem[Any]) -> bool:
    return bool(deployment.spec.get("paused"))


def _count(replica_set: CachedItem[Any], field: str) -> int:
    count: int = replica_set.status.get(field) or 0
    return count


def _with_update_time(
    conditions: list[Condition], type: str, status: Answer, reason: str, message: str, now: str, *, moved: bool = False
) -> list[Condition]:
    """Set a condition, with the last update time that Deployment conditions have."""
    old = condition_of(conditions, type)
    if old is not None and (old["status"], old["reason"]) == (status, reason) and not moved:
        return conditions
    same = old is not None and old["status"] == status
    new = {
        "type": type,
        "status": status,
        "lastUpdateTime": now,
        "lastTransitionTime": old["lastTransitionTime"] if old is not None and same else now,
        "reason": reason,
        "message": message,
    }
    return [*without_condition(conditions, type), new]
