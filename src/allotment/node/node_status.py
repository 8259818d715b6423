"""Node status reporting: lease renewal, declared features, and conditions after the control plane has lost a node.

When a node's lease expires, the control plane sets its conditions to Unknown, taints it and evicts its pods. Only the
kubelet can revert that, by reporting the conditions again. They are reported only in that case and not periodically,
so that a node without pods costs nothing but its Lease. Conditions that a client wrote, for example in a test, are not
overwritten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import NODES
from allotment.cluster.work_queue import WorkQueue
from allotment.model.core import Node
from allotment.model.features import DECLARED
from allotment.model.trees import Tree
from allotment.node.leases import Leases

#: The node lifecycle controller's condition reasons for a node that stopped reporting, or never reported.
_LOST: Final = frozenset({"NodeStatusUnknown", "NodeStatusNeverUpdated"})


class NodeStatuses:
    """Reports the status of the nodes for which ``serves`` is true.

    ``declared``: the DRA features in ``status.declaredFeatures`` (KEP-5328); other features in it are not changed.
    """

    def __init__(self, context: ProgramContext, serves: Callable[[Tree], bool], declared: Collection[str] = ()) -> None:
        self._clock = context.clock
        self._client = context.client_for("kubelet")
        self._nodes = context.caches.of(NODES, Node)
        self._serves = serves
        self._declared = frozenset(declared)
        self._leases = Leases(self._client, context.clock, self._served)
        self._due: WorkQueue[str] = WorkQueue("node status", self._report, clock=context.clock, random=context.random)

    async def run(self) -> None:
        """Report until cancelled."""
        await self._nodes.synced.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._leases.run(), name="leases of nodes")
            await run_queues([self._due], [(self._nodes, self._changed)])

    def _served(self) -> list[tuple[str, str]]:
        return [(node.name, node.uid) for node in self._nodes.items() if self._serves(node.tree)]

    def _changed(self, old: CachedItem[Node] | None, new: CachedItem[Node] | None) -> None:
        if new is not None and self._serves(new.tree) and self._status_of(new):
            self._due.add(new.name)

    async def _report(self, name: str) -> None:
        node = self._nodes.item("", name)
        status = self._status_of(node) if node is not None and not node.deleting else None
        if node is None or not status:
            return
        patch = {"metadata": {"uid": node.uid}, "status": status}
        self._nodes.record_write(await self._client.patch(NODES, name, patch, kind="strategic", subresource="status"))

    def _status_of(self, node: CachedItem[Node]) -> Tree:
        """The fields of the status that differ from what the kubelet reports."""
        status: Tree = {}
        if lost := _lost(node):
            healthy = healthy_conditions(self._clock.now())
            status["conditions"] = [condition for condition in healthy if condition["type"] in lost]
        current = frozenset(node.status.get("declaredFeatures") or ())
        declared = (current - frozenset(DECLARED)) | self._declared
        if declared != current:
            status["declaredFeatures"] = sorted(declared)
        return status


def healthy_conditions(now: str) -> list[Tree]:
    """The conditions that the kubelet of a healthy node reports."""
    return [
        _condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory", now),
        _condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure", now),
        _condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available", now),
        _condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", now),
    ]


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> Tree:
    return {
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    }  # fmt: skip


def _lost(node: CachedItem[Any]) -> frozenset[str]:
    """The types of the conditions that the control plane has set to Unknown."""
    return frozenset(
        str(condition["type"])
        for condition in node.status.get("conditions") or ()
        if condition["status"] == "Unknown" and condition.get("reason") in _LOST
    )
