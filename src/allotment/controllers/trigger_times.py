"""Trigger time of endpoint changes, from which network programming latency is measured.

Endpoints carry it in an annotation: first the creation time of the Service, later the earliest time at which one of the
changed pods became ready or unready; absent if no time is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from allotment.cluster.cached_item import CachedItem
from allotment.controllers.conditions import condition_of

ANNOTATION: Final = "endpoints.kubernetes.io/last-change-trigger-time"

Key = tuple[str, str]


class TriggerTimes:
    """The pod state of each Service when its endpoints were last computed."""

    def __init__(self) -> None:
        self._seen: dict[Key, dict[str, str]] = {}

    def of(self, service: CachedItem[Any], pods: Iterable[CachedItem[Any]]) -> str | None:
        """Return the time for this sync, and store the state for the next one."""
        times = {pod.name: time for pod in pods if (time := _ready_since(pod))}
        before = self._seen.get(service.key)
        self._seen[service.key] = times
        if before is None:
            return str(service.metadata.get("creationTimestamp"))
        return min((time for name, time in times.items() if time > before.get(name, "")), default=None)

    def forget(self, key: Key) -> None:
        """Drop the state of a deleted Service."""
        self._seen.pop(key, None)


def annotated(annotations: dict[str, str] | None, time: str | None) -> dict[str, str]:
    """The annotations with the trigger time set, or removed for None."""
    kept = {key: value for key, value in (annotations or {}).items() if key != ANNOTATION}
    return {**kept, ANNOTATION: time} if time else kept


def _ready_since(pod: CachedItem[Any]) -> str:
    condition = condition_of(pod.status.get("conditions"), "Ready") or {}
    return str(condition.get("lastTransitionTime") or "")
