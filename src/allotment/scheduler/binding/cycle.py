"""Runs bindings concurrently: each pod counts on its node from the decision on, and leaves it if the binding fails."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.instrumentation import Instrumentation
from allotment.cluster.shutdown import ShutdownStarted
from allotment.node_fit.nodes import NodeCache
from allotment.node_fit.pod_requirements import PodRequirementsCache
from allotment.scheduler.attempt import NodeAssignment, SchedulingAlgorithm
from allotment.scheduler.binding.binder import Binder
from allotment.scheduler.binding.errors import BindError
from allotment.scheduler.claim_ledger import ClaimLedger
from allotment.scheduler.cluster_events import ClusterEvent
from allotment.scheduler.coexistence.monitor import CoexistenceMonitor
from allotment.scheduler.idle_bindings import IdleBindings
from allotment.scheduler.pending_events import PendingEvents
from allotment.scheduler.pending_pods import PendingPods, StartTask
from allotment.scheduler.pods import QueuedPod, claim_keys

_log = logging.getLogger(__name__)

#: Maximum number of concurrent bindings, idle ones excluded; further decisions wait.
_MAX_BINDINGS: Final = 128


class BindingCycle:
    """Runs bindings concurrently. ``assumed``: pods (by uid) that are being bound, shared with other components;
    ``wait_reported`` waits until the current status report of a pod (uid) is written.
    """

    def __init__(
        self,
        assumed: dict[str, QueuedPod],
        binder: Binder,
        algorithm: SchedulingAlgorithm,
        pending_pods: PendingPods,
        machines: NodeCache,
        ledger: ClaimLedger,
        idle_bindings: IdleBindings,
        monitor: CoexistenceMonitor,
        pods: Cache[Any],
        demands: PodRequirementsCache,
        observing: Instrumentation,
        events: PendingEvents,
        start: StartTask,
        wait_reported: Callable[[str], Awaitable[None]],
    ) -> None:
        self.pods = assumed
        self._binder = binder
        self._algorithm = algorithm
        self._pending_pods = pending_pods
        self._machines = machines
        self._ledger = ledger
        self._idle_bindings = idle_bindings
        self._monitor = monitor
        self._known = pods
        self._demands = demands
        self._observing = observing
        self._events = events
        self._start = start
        self._wait_reported = wait_reported

    @property
    def is_full(self) -> bool:
        """Whether no more bindings can start now."""
        return len(self.pods) - self._idle_bindings.count >= _MAX_BINDINGS

    def start(self, pod: QueuedPod, chosen: NodeAssignment) -> None:
        """Book a decision and start its binding."""
        self.assume(pod, chosen)
        self._pending_pods.node_assigned(pod)
        self.pods[pod.uid] = pod
        self._start(self._run(pod, chosen), f"bind {pod.key}")

    def assume(self, pod: QueuedPod, chosen: NodeAssignment) -> None:
        """Book a decision: the pod counts on its node, and its claims hold their devices."""
        self._binder.plan(pod, chosen)
        demand = self._algorithm.accounts.demand_with(pod, chosen.claim_statuses)
        self._machines.assign_pod(pod.resident._replace(requirements=demand), chosen.node)

    def forget(self, pod: QueuedPod, chosen: NodeAssignment) -> None:
        """Revert `assume`."""
        self._machines.remove_pod(pod.uid)
        self._binder.cancel(pod, chosen)

    async def _run(self, pod: QueuedPod, chosen: NodeAssignment) -> None:
        try:
            with self._observing.work("bind", pod.uid) as work:
                work.attributes |= {"pod": str(pod.key), "node": chosen.node}
                try:
                    await self._wait_reported(pod.uid)
                    await self._binder.bind(pod, chosen)
                    work.result = "bound"
                except ShutdownStarted:
                    work.result = "left"  # it stays assumed until another scheduler continues
                    return
        except BindError as error:
            del self.pods[pod.uid]
            self._return_to_queue(pod, str(error))
        except Exception as error:  # noqa: BLE001 - an error of one pod must not end all other bindings
            _log.exception("binding pod %s", pod.key)
            self._binder.cancel(pod, chosen)
            del self.pods[pod.uid]
            self._return_to_queue(pod, f"internal error: {error}")
        else:
            del self.pods[pod.uid]
            self._placed(pod)
        self._events.wake()

    def _placed(self, pod: QueuedPod) -> None:
        self._pending_pods.forget_claims(pod)
        item = self._known.item(pod.key.namespace, pod.key.name)
        if item is None or item.uid != pod.uid:
            self._leave(pod)  # it was deleted in the meantime
        keys = claim_keys(pod.tree)
        made = self._ledger.extended_claims.get(pod.uid)
        for key in (*keys, made) if made is not None else keys:
            self._monitor.check(key)

    def _return_to_queue(self, pod: QueuedPod, text: str) -> None:
        """Remove a pod that could not be bound from its node, and retry it if it still exists."""
        self._pending_pods.forget_claims(pod)
        item = self._known.item(pod.key.namespace, pod.key.name)
        if item is not None and item.uid == pod.uid and item.spec.get("nodeName"):
            return  # it is bound, here or by another scheduler
        self._machines.remove_pod(pod.uid)
        self._events.add(ClusterEvent.POD_GONE)
        if item is None or item.uid != pod.uid or item.deleting:
            return
        again = QueuedPod(item.tree, self._demands.of(item.spec))
        again.failures = pod.failures
        self._pending_pods.back_off(again, text)

    def _leave(self, pod: QueuedPod) -> None:
        if self._machines.remove_pod(pod.uid) is not None:
            self._events.add(ClusterEvent.POD_GONE)
