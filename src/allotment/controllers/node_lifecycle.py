"""Node lifecycle controller: taints of nodes, eviction of pods, and detection of nodes that stop reporting.

A node is tainted according to its conditions, and the taint that every new node gets is removed once it is ready. A
node that stops renewing its Lease becomes Unknown after 50 seconds, or after 1.25 times the duration of the Lease if
that is longer. One that has no Lease and no kubelet, for example because a user created it, becomes Unknown 50 seconds
after its last heartbeat, or 60 seconds after its creation if its status was never reported. Pods that do not tolerate
a NoExecute taint are deleted, immediately or after their ``tolerationSeconds``.

Grace periods and tolerations are measured in running time. While the process is suspended it receives no heartbeat, and
in a lab the nodes are suspended with it: a pause must not cost nodes or pods.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from allotment.cluster.cached_item import CachedItem, by_node
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import LEASES, NODES, PODS
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.conditions import condition_of, with_condition
from allotment.controllers.daemon_placement import tolerates
from allotment.controllers.pods import is_finished
from allotment.model.trees import Tree

log = logging.getLogger(__name__)

_GRACE_SECONDS: Final = 50.0
#: Grace period of a node whose status was never reported.
_STARTUP_SECONDS: Final = 60.0
#: Grace period of a Lease that is longer than the default 40 seconds, as a multiple of its duration.
_GRACE: Final = 1.25
_LEASES: Final = "kube-node-lease"
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
#: Conditions of a node that keep new pods away, and the taint for each.
_PRESSURES: Final = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
#: Reason and message of the conditions of a node that is silent, and of conditions that it never reported.
_SILENT: Final = ("NodeStatusUnknown", "Kubelet stopped posting node status.")
_NEVER_REPORTED: Final = ("NodeStatusNeverUpdated", "Kubelet never posted node status.")
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_MANAGED_TAINTS: Final = frozenset({_NOT_READY, _UNREACHABLE, _UNSCHEDULABLE, *_PRESSURES.values()})


class _Pod(NamedTuple):
    namespace: str
    name: str
    uid: str


async def node_lifecycle(context: ProgramContext) -> None:
    """Run the node lifecycle controller."""
    await _NodeLifecycle(context).run()


class _NodeLifecycle:
    def __init__(self, context: ProgramContext) -> None:
        self._client = context.client_for("node-controller")
        self._clock = context.clock
        self._running = RunningTime(context.clock)
        self._recorder = context.recorder("node-controller")
        self._evictor = context.recorder("taint-eviction-controller")
        self._nodes = context.caches.trees(NODES)
        self._leases = context.caches.trees(LEASES)
        self._pods = context.caches.trees(PODS)
        self._on_node = self._pods.index("node", by_node)
        self._renewed: dict[str, float] = {}
        self._grace: dict[str, float] = {}
        #: The nodes that have, or had, a Lease.
        self._leased: set[str] = set()
        self._marked: dict[_Pod, float] = {}
        options: dict[str, Any] = {"clock": context.clock, "random": context.random}
        self._queue: WorkQueue[str] = WorkQueue("nodes", self._sync_node, **options)
        self._evictions: WorkQueue[_Pod] = WorkQueue("taint-eviction", self._sync_pod, **options)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._running.run(), name="running time")
            await run_queues(
                [self._queue, self._evictions],
                [(self._leases, self._lease_changed), (self._nodes, self._node_changed),
                 (self._pods, self._pod_changed)],
            )  # fmt: skip

    # --- events --------------------------------------------------------------------------------------

    def _lease_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        lease = new or old
        if lease is None or lease.namespace != _LEASES:
            return
        if new is None:
            return  # the node has reported before; it now becomes silent
        first = lease.name not in self._leased
        self._leased.add(lease.name)
        self._renewed[lease.name] = self._running.seconds()
        self._grace[lease.name] = max(_GRACE_SECONDS, _GRACE * (lease.spec.get("leaseDurationSeconds") or 0))
        node = self._nodes.item("", lease.name)
        ready = condition_of(node.status.get("conditions"), "Ready") if node else None
        if first or (ready is not None and ready["status"] == "Unknown"):
            self._queue.add(lease.name)

    def _node_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is None:
            if old is not None:
                self._renewed.pop(old.name, None)
                self._grace.pop(old.name, None)
                self._leased.discard(old.name)
            return
        if new.name not in self._renewed or _heartbeat(new) not in ("", _heartbeat(old)):
            self._renewed[new.name] = self._running.seconds()
        if new.name not in self._leased:
            reported = condition_of(new.status.get("conditions"), "Ready") is not None
            # As for a Lease, whose duration grows with the speed of the clock.
            grace = _GRACE_SECONDS if reported else _STARTUP_SECONDS
            self._grace[new.name] = grace * max(self._clock.speed, 1)
        before = (old.spec, old.status.get("conditions")) if old else None
        if before != (new.spec, new.status.get("conditions")):
            self._queue.add(new.name)
        if _no_execute(old) != _no_execute(new):
            for pod in self._on_node[new.name]:
                self._evictions.add(_Pod(pod.namespace, pod.name, pod.uid))

    def _pod_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is None or not new.spec.get("nodeName"):
            return
        if old is not None and old.spec.get("nodeName") and old.spec.get("tolerations") == new.spec.get("tolerations"):
            return
        if _no_execute(self._nodes.item("", new.spec["nodeName"])):
            self._evictions.add(_Pod(new.namespace, new.name, new.uid))

    # --- nodes ----------------------------------------------------------------------------------------------------

    async def _sync_node(self, name: str) -> float | None:
        node = self._nodes.item("", name)
        if node is None or node.deleting:
            return None
        wait: float | None = None
        renewed = self._renewed.get(name)
        if renewed is not None:
            wait = renewed + self._grace[name] - self._running.seconds()
            if wait <= 0:
                node = await self._mark_unknown_if_silent(node)
                wait = None
        await self._taint(node)
        return wait

    async def _mark_unknown_if_silent(self, node: CachedItem[Any]) -> CachedItem[Any]:
        """Set the conditions of a node to Unknown if it has not reported within the grace period."""
        now = self._clock.now()
        conditions = node.status.get("conditions") or []
        for type in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
            old = condition_of(conditions, type)
            if old is None or old["status"] != "Unknown":
                reason, message = _SILENT if old is not None else _NEVER_REPORTED
                heartbeat = (old or {}).get("lastHeartbeatTime") or node.metadata.get("creationTimestamp") or now
                conditions = with_condition(
                    conditions, type, "Unknown", reason, message, now=now, lastHeartbeatTime=heartbeat
                )  # fmt: skip
        if conditions == node.status.get("conditions"):
            return node
        tree = {**node.tree, "status": {**node.status, "conditions": conditions}}
        answer = await self._client.update(NODES, tree, subresource="status")
        self._nodes.record_write(answer)
        self._recorder.event(node.tree, "Normal", "NodeNotReady", f"Node {node.name} status is now: NodeNotReady")
        for pod in tuple(self._on_node[node.name]):
            await self._mark_pod_not_ready(pod)
        return CachedItem(answer)

    async def _mark_pod_not_ready(self, pod: CachedItem[Any]) -> None:
        ready = condition_of(pod.status.get("conditions"), "Ready")
        if ready is None or ready["status"] != "True":
            return
        conditions = with_condition(
            pod.status["conditions"], "Ready", "False", "NodeNotReady", now=self._clock.now(), lastProbeTime=None
        )
        tree = {**pod.tree, "status": {**pod.status, "conditions": conditions}}
        try:
            self._pods.record_write(await self._client.update(PODS, tree, subresource="status"))
        except StatusError as error:
            if error.code not in (404, 409):
                raise

    async def _taint(self, node: CachedItem[Any]) -> None:
        wanted = _taints(node)
        known = node.spec.get("taints") or []
        kept = [
            taint for taint in known if taint["key"] not in _MANAGED_TAINTS or (taint["key"], taint["effect"]) in wanted
        ]
        present = {(taint["key"], taint["effect"]) for taint in kept}
        now = self._clock.now()
        # Sorted, so that the same conditions give the same node.
        added = [{"key": key, "effect": effect, "timeAdded": now} for key, effect in sorted(wanted - present)]
        if not added and len(kept) == len(known):
            return
        spec = {**node.spec, "taints": [*kept, *added]}
        if not spec["taints"]:
            del spec["taints"]
        self._nodes.record_write(await self._client.update(NODES, {**node.tree, "spec": spec}))

    # --- pods -----------------------------------------------------------------------------------------------------

    async def _sync_pod(self, key: _Pod) -> float | None:
        pod = self._pods.item(key.namespace, key.name)
        if pod is None or pod.uid != key.uid or pod.deleting or is_finished(pod):
            self._marked.pop(key, None)
            return None
        taints = _no_execute(self._nodes.item("", pod.spec.get("nodeName", "")))
        seconds = _tolerated(pod.spec.get("tolerations") or (), taints)
        about = {"kind": "Pod", "apiVersion": "v1", "metadata": key._asdict()}
        if seconds is None:
            if self._marked.pop(key, None) is not None:
                self._evictions.cancel(key)
                text = f"Cancelling deletion of Pod {key.namespace}/{key.name}"
                self._evictor.event(about, "Normal", "TaintManagerEviction", text)
            return None
        # Measured from when the taint was first seen: one that a user sets has no timeAdded.
        now = self._running.seconds()
        left = self._marked.setdefault(key, now) + seconds - now
        if left > 0:
            return left
        self._evictor.event(
            about, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {key.namespace}/{key.name}"
        )
        await self._evict(pod)
        self._marked.pop(key, None)
        return None

    async def _evict(self, pod: CachedItem[Any]) -> None:
        conditions = with_condition(
            pod.status.get("conditions"), "DisruptionTarget", "True", "DeletionByTaintManager",
            "Taint manager: deleting due to NoExecute taint", now=self._clock.now(), lastProbeTime=None,
        )  # fmt: skip
        tree = {**pod.tree, "status": {**pod.status, "conditions": conditions}}
        try:
            self._pods.record_write(await self._client.update(PODS, tree, subresource="status"))
            await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
        except StatusError as error:
            if error.code != 404:
                raise


def _heartbeat(node: CachedItem[Any] | None) -> str:
    """When the kubelet last reported the node's status; empty while it is unknown."""
    ready = condition_of(node.status.get("conditions"), "Ready") if node else None
    return "" if ready is None or ready["status"] == "Unknown" else str(ready.get("lastHeartbeatTime") or "")


def _no_execute(node: CachedItem[Any] | None) -> list[Tree]:
    """The NoExecute taints of a node, without those of this controller that are about to be removed."""
    taints = [taint for taint in node.spec.get("taints") or () if taint["effect"] == "NoExecute"] if node else []
    if not node or not taints:
        return []
    wanted = _taints(node)
    return [
        taint for taint in taints if taint["key"] not in _MANAGED_TAINTS or (taint["key"], taint["effect"]) in wanted
    ]


def _tolerated(tolerations: Sequence[Tree], taints: Sequence[Tree]) -> float | None:
    """Seconds that a pod may stay on a node with these taints; None for indefinitely."""
    limits = []
    for taint in taints:
        matching = next((toleration for toleration in tolerations if tolerates(toleration, taint)), None)
        if matching is None:
            return 0.0
        if matching.get("tolerationSeconds") is not None:
            limits.append(max(float(matching["tolerationSeconds"]), 0.0))
    return min(limits, default=None)


def _taints(node: CachedItem[Any]) -> set[tuple[str, str]]:
    """Key and effect of the taints that the node's conditions require."""
    conditions = node.status.get("conditions")
    wanted = set()
    ready = condition_of(conditions, "Ready")
    # A node without conditions keeps the taints from admission and evicts no pods.
    status = ready["status"] if ready else None
    if status is None:
        wanted |= {(taint["key"], taint["effect"]) for taint in node.spec.get("taints") or ()}
    elif status != "True":
        key = _UNREACHABLE if status == "Unknown" else _NOT_READY
        wanted |= {(key, "NoSchedule"), (key, "NoExecute")}
    for type, key in _PRESSURES.items():
        condition = condition_of(conditions, type)
        if condition is not None and condition["status"] == "True":
            wanted.add((key, "NoSchedule"))
    if node.spec.get("unschedulable"):
        wanted.add((_UNSCHEDULABLE, "NoSchedule"))
    elif status is None:
        wanted.discard((_UNSCHEDULABLE, "NoSchedule"))
    return wanted


#: A step of :class:`RunningTime` in seconds of the clock, and its limits in real seconds.
_STEP_SECONDS: Final = 5.0
_LEAST_SECONDS: Final = 0.1
_MOST_SECONDS: Final = 1.0
#: Real seconds; a longer suspension is logged.
_NOTICED_SECONDS: Final = 5.0


class RunningTime:
    """The running time of this process: starts at 0, and advances while :meth:`run` does.

    A process may be suspended (SIGSTOP, a debugger, a suspended machine, a blocked event loop) while its clock
    advances. Afterwards all nodes seem to have been silent for long, so silence is measured in running time.

    While the event loop runs, the clock is read at least once in each step. Of the time between two readings one step
    is running time at most; in the rest nothing ran. The wall clock is not used: setting it changes nothing.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._step = min(max(_STEP_SECONDS, _LEAST_SECONDS * clock.speed), _MOST_SECONDS * clock.speed)
        self._read = clock.seconds()
        self._running = 0.0

    def seconds(self) -> float:
        """Seconds of the clock since the start in which the process ran."""
        now = self._clock.seconds()
        elapsed, self._read = now - self._read, now
        self._running += min(elapsed, self._step)
        suspended = (elapsed - self._step) / self._clock.speed
        if suspended >= _NOTICED_SECONDS:
            log.warning(
                "the process was suspended for %.0f s; timeouts of nodes and pods are extended by this duration",
                suspended,
            )
        return self._running

    async def run(self) -> None:
        """Read the clock in each step, forever."""
        while True:
            self.seconds()
            await self._clock.sleep(self._step)
