"""When that happened for which the endpoints of a service change: what delays in networks are measured from.

The endpoints carry it as an annotation: the first time, when the service was made; later, when the first of the pods
that differ became ready or ceased to be; nothing where no time is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from allotment.cluster.cached_item import Item
from allotment.controllers.conditions import condition_of

ANNOTATION: Final = "endpoints.kubernetes.io/last-change-trigger-time"

Key = tuple[str, str]


class TriggerTimes:
    """What was seen of each service's pods when its endpoints were last looked at."""

    def __init__(self) -> None:
        self._seen: dict[Key, dict[str, str]] = {}

    def of(self, service: Item[Any], pods: Iterable[Item[Any]]) -> str | None:
        """The time for this look; the next one starts from it."""
        times = {pod.name: time for pod in pods if (time := _ready_since(pod))}
        before = self._seen.get(service.key)
        self._seen[service.key] = times
        if before is None:
            return str(service.metadata.get("creationTimestamp"))
        return min((time for name, time in times.items() if time > before.get(name, "")), default=None)

    def forget(self, key: Key) -> None:
        """A service is gone."""
        self._seen.pop(key, None)


def annotated(annotations: dict[str, str] | None, time: str | None) -> dict[str, str]:
    """Annotations with a time, or without one."""
    kept = {key: value for key, value in (annotations or {}).items() if key != ANNOTATION}
    return {**kept, ANNOTATION: time} if time else kept


def _ready_since(pod: Item[Any]) -> str:
    condition = condition_of(pod.status.get("conditions"), "Ready") or {}
    return str(condition.get("lastTransitionTime") or "")
