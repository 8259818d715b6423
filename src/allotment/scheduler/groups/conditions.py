"""Writes the condition PodGroupInitiallyScheduled of PodGroups."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import POD_GROUPS
from allotment.model.trees import Tree
from allotment.scheduler.group_key import GroupKey
from allotment.scheduler.groups.status import Code, GroupStatus

_log = logging.getLogger(__name__)

TYPE: Final = "PodGroupInitiallyScheduled"
#: Retries after a write that was not answered, in seconds between them.
_RETRY_SECONDS: Final = 0.5
_RETRIES: Final = 5
_REASONS: Final = {
    Code.SUCCESS: ("True", "Scheduled"),
    Code.UNSCHEDULABLE: ("False", "Unschedulable"),
    Code.ERROR: ("False", "SchedulerError"),
}


class PodGroupConditions:
    """Writes the latest outcome of each PodGroup, one write per group at a time."""

    def __init__(
        self, client: Client, groups: Cache[Any], clock: Clock, start: Callable[[Coroutine[Any, Any, None], str], None]
    ) -> None:
        self._client = client
        self._groups = groups
        self._clock = clock
        self._start = start
        self._latest: dict[GroupKey, GroupStatus] = {}
        self._writing: set[GroupKey] = set()

    def report(self, key: GroupKey, status: GroupStatus) -> None:
        """Schedule the write of an outcome. A success that is not written yet is kept: it is never taken back."""
        latest = self._latest.get(key)
        if latest is None or not latest.ok:
            self._latest[key] = status.copy()
        if key not in self._writing:
            self._writing.add(key)
            self._start(self._write(key), f"condition of pod group {key.namespace}/{key.name}")

    async def _write(self, key: GroupKey) -> None:
        try:
            while (status := self._latest.pop(key, None)) is not None:
                await self._write_one(key, status)
        finally:
            self._writing.discard(key)

    async def _write_one(self, key: GroupKey, status: GroupStatus) -> None:
        for _ in range(_RETRIES):
            group = self._groups.tree(key.namespace, key.name)
            conditions = updated_conditions(group, status, self._clock.now()) if group is not None else None
            if group is None or conditions is None:
                return
            patch = {"metadata": {"uid": group["metadata"].get("uid")}, "status": {"conditions": conditions}}
            try:
                self._groups.record_write(
                    await self._client.patch(POD_GROUPS, key.name, patch, key.namespace, subresource="status")
                )
                return
            except StatusError as error:
                if error.code not in (404, 409):
                    _log.warning("cannot write the status of pod group %s/%s: %s", key.namespace, key.name, error)
                return
            except Unreachable:
                await self._clock.sleep(_RETRY_SECONDS)


def updated_conditions(group: Tree, status: GroupStatus, now: str) -> list[Tree] | None:
    """Return the conditions of a PodGroup after an attempt; None if they do not change.

    A group that was scheduled once stays so: later attempts concern additional pods.
    """
    before: list[Tree] = (group.get("status") or {}).get("conditions") or []
    old = next((condition for condition in before if condition.get("type") == TYPE), None)
    value, reason = _REASONS[status.code]
    if old is not None and old.get("status") == "True" and value != "True":
        return None
    new: Tree = {
        "type": TYPE, "status": value, "lastTransitionTime": now, "reason": reason, "message": status.message
    }  # fmt: skip
    if generation := group["metadata"].get("generation"):
        new["observedGeneration"] = generation
    if old is not None and old.get("status") == value:
        new["lastTransitionTime"] = old.get("lastTransitionTime") or now
    if old == new:
        return None
    return [*(condition for condition in before if condition is not old), new]
