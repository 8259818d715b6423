"""Reports why pods are pending: the PodScheduled condition and the FailedScheduling event, with the engine's reasons.

Finding the smallest change that would help takes milliseconds, and longer with many devices. It is therefore done once
per group of equivalent pods, and limited to a share of the time, which is smaller while pods are being scheduled. Pods
without any report come first. A pod that is pending only for a moment gets no report.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock, Timer
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.lasting_events import LastingEvents, StateEvent
from allotment.cluster.recorder import Recorder
from allotment.cluster.resources import PODS
from allotment.explanation import messages
from allotment.explanation.messages import Report
from allotment.model.meta import ObjectKey
from allotment.model.trees import Tree
from allotment.node_fit.nodes import NodeCache
from allotment.scheduler.pods import QueuedPod
from allotment.scheduler.queue import EquivalenceGroup, SchedulingQueue
from allotment.scheduler.reporting.own_objects import claim_names, origin, own_names, with_claim_names
from allotment.scheduler.reporting.pod_explainer import PodExplainer
from allotment.scheduler.reporting.verdict import Verdict

_log = logging.getLogger(__name__)

#: Seconds before a pod without a feasible node is reported.
REPORT_DELAY: Final = 0.05
#: Diagnosis takes at most this share of the time while pods are scheduled, otherwise half, in slices of this many
#: seconds.
_TIME_SHARE: Final = 0.25
_TIME_SLICE: Final = 0.02
#: Concurrent writes.
_WRITERS: Final = 8
#: Pods of a group that are reported before other groups.
_BATCH_SIZE: Final = 200
#: Minimum seconds between two explanations of a group whose message has not changed.
_UPDATE_INTERVAL: Final = 10.0


class StatusReporter:
    """Writes the verdicts of pods to their status and as events."""

    def __init__(
        self,
        client: Client,
        queue: SchedulingQueue,
        machines: NodeCache,
        explainer: PodExplainer,
        clock: Clock,
        recorder: Recorder,
        pods: Cache[Any],
        *,
        busy: Callable[[], bool],
    ) -> None:
        self._client = client
        self._queue = queue
        self._machines = machines
        self._explainer = explainer
        self._clock = clock
        self._pods = pods
        self._busy = busy
        self._unreported: dict[object, tuple[EquivalenceGroup, float]] = {}
        """Groups with pods that have no report yet, and since when they wait."""
        self._updates: dict[object, tuple[EquivalenceGroup, float]] = {}
        """Groups whose report may have changed."""
        self._arrived = asyncio.Event()
        self._deferred: dict[object, Timer] = {}
        """Groups that are reported later."""
        self._spent = 0.0
        self._reported: dict[str, tuple[str, str, float]] = {}
        """By pod uid: reason and Kubernetes' message as last reported, and when."""
        self._events = LastingEvents(recorder, clock, self._is_current)
        """The last event of each pod, by reason, cause and remedy."""
        self._ordered: dict[str, str] = {}
        """By pod uid: the node that was nominated before it was ready. An attempt clears the pod's own nomination."""
        self._writing: dict[str, asyncio.Event] = {}
        """By pod uid: set when the write in progress ends."""

    def report(self, group: EquivalenceGroup) -> None:
        """Schedule a report for the pods of a group."""
        unreported = any(uid not in self._reported for uid in group.pods)
        waiting = self._unreported if unreported else self._updates
        _, since = waiting.get(group.key, (group, self._clock.seconds()))
        waiting[group.key] = (group, since)
        self._arrived.set()

    def report_alone(self, pod: QueuedPod, verdict: Verdict) -> None:
        """Schedule a report for a pod whose verdict applies to no other pod."""
        group = EquivalenceGroup(("alone", pod.uid), pod.priority)
        group.pods[pod.uid] = pod
        group.verdict = verdict
        self.report(group)

    def forget(self, uid: str) -> None:
        """Forget the reports of a pod that is no longer pending."""
        self._reported.pop(uid, None)
        self._ordered.pop(uid, None)
        self._events.forget(uid)

    def close(self) -> None:
        """Report and repeat nothing any more."""
        self._events.close()
        for timer in self._deferred.values():
            timer.cancel()

    async def wait_written(self, uid: str) -> None:
        """Wait for the write in progress: after the binding it would say that the pod has no node."""
        if written := self._writing.get(uid):
            await written.wait()

    def cluster_changed(self) -> None:
        """Explain again, because nodes, slices, classes or rules have changed."""
        self._explainer.cluster_changed()

    async def run(self) -> None:
        """Write reports until cancelled."""
        while True:
            waiting = self._unreported or self._updates
            if not waiting:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            key, (group, since) = next(iter(waiting.items()))
            left = since + REPORT_DELAY - self._clock.seconds()
            if left > 0:
                await self._clock.sleep(left)
                continue
            del waiting[key]
            if await self._report_group(group):
                self.report(group)
            if self._spent > _TIME_SLICE:
                await self._pause()

    async def _pause(self) -> None:
        """Yield to other tasks, longer only while they are busy."""
        loop = asyncio.get_running_loop()
        spent, self._spent = self._spent, 0.0
        end = loop.time() + spent * (1 / _TIME_SHARE - 1)
        await asyncio.sleep(spent)
        while self._busy() and loop.time() < end:
            await asyncio.sleep(_TIME_SLICE)

    async def _report_group(self, group: EquivalenceGroup) -> bool:
        """Report a batch of pods of a group; return whether more remain."""
        verdict = group.verdict
        if not isinstance(verdict, Verdict):
            return False  # it was made ready in the meantime
        now = asyncio.get_running_loop().time()  # diagnosis takes real, not simulated time
        due = [pod for pod in group.pods.values() if self._is_due(pod, verdict, now)]
        if not due:
            self._defer(group)
            return False
        # The lines may name the workload and the templates, which another tenant must not see and another workload does
        # not have.
        by_origin: dict[Hashable, list[QueuedPod]] = {}
        for pod in due[:_BATCH_SIZE]:
            by_origin.setdefault(origin(pod), []).append(pod)
        left = len(due)
        for batch in by_origin.values():
            await self._write_all(batch, verdict, now)
            left -= len(batch)
            if self._spent > _TIME_SLICE:
                break
        return left > 0

    async def _write_all(self, batch: Sequence[QueuedPod], verdict: Verdict, now: float) -> None:
        """Write the reports on equivalent pods of one workload."""
        report = self._reasons(batch[0], verdict)
        # The verdict is that of some pod of the group, which is perhaps in another namespace.
        named = [str(claim.key) for claim in verdict.pending] or claim_names(batch[0].tree)
        gate = asyncio.Semaphore(_WRITERS)

        async def write(pod: QueuedPod) -> None:
            async with gate:
                await self._write(pod, verdict, with_claim_names(report, own_names(named, pod)), now)

        async with asyncio.TaskGroup() as writers:
            for pod in batch:
                writers.create_task(write(pod))

    def _defer(self, group: EquivalenceGroup) -> None:
        """Report the group again when its last report is old enough: nothing else may happen until then."""
        if group.key not in self._deferred:
            loop = asyncio.get_running_loop()  # as in `_report_group`: diagnosis takes real time
            self._deferred[group.key] = loop.call_later(_UPDATE_INTERVAL, self._report_deferred, group)

    def _report_deferred(self, group: EquivalenceGroup) -> None:
        del self._deferred[group.key]
        if group.pods:
            self.report(group)

    def _is_due(self, pod: QueuedPod, verdict: Verdict, now: float) -> bool:
        reported = self._reported.get(pod.uid)
        if reported is None or reported[:2] != (verdict.reason, verdict.sentence):
            return True
        return now - reported[2] >= _UPDATE_INTERVAL

    async def _write(self, pod: QueuedPod, verdict: Verdict, report: Report, now: float) -> None:
        if pod.uid not in self._queue:
            return
        self._reported[pod.uid] = (verdict.reason, verdict.sentence, now)
        ordered = self._ordered_node(pod)
        report = messages.machine_ordered(ordered) if ordered else report
        message = messages.condition_message(report.lines, verdict.sentence)
        patch = condition_patch(pod.tree, verdict.reason, message, self._clock.now())
        if verdict.nominated_node is not None and verdict.nominated_node != pod.nominated_node:
            patch["nominatedNodeName"] = verdict.nominated_node or None
        # The autoscaler reports its order itself. After a restart the condition may be up to date, but an event of the
        # earlier process expires.
        if pod.uid not in self._events or ("conditions" in patch and not ordered):
            self._record(pod, verdict, report)
        if not patch:
            return
        written = self._writing[pod.uid] = asyncio.Event()
        try:
            await self.patch(pod.key, pod.uid, patch)
        finally:
            del self._writing[pod.uid]
            written.set()

    def _record(self, pod: QueuedPod, verdict: Verdict, report: Report) -> None:
        """Record an event unless the last one has the same cause and remedy: the condition contains the counts."""
        state = (verdict.reason, bool(verdict.nominated_node), report.cause)
        note = messages.event_note(report.lines, verdict.sentence)
        self._events.record(pod.uid, state, StateEvent(pod.tree, "Warning", "FailedScheduling", note, "Scheduling"))

    def _is_current(self, uid: str) -> bool:
        """Whether the last event about a pod still tells its state: it is pending, and no machine was ordered since."""
        return uid in self._queue and uid not in self._ordered

    def _ordered_node(self, pod: QueuedPod) -> str:
        """Return the node that an autoscaler ordered for the pod and that is not ready yet, or an empty string."""
        name = pod.nominated_node or self._ordered.get(pod.uid, "")
        machine = self._machines.by_name.get(name)
        if machine is None or not machine.is_provisioning:
            self._ordered.pop(pod.uid, None)
            return ""
        self._ordered[pod.uid] = name
        return name

    async def patch(self, key: ObjectKey, uid: str, status: Tree) -> bool:
        """Patch the status of the pod with this uid; return whether that succeeded."""
        try:
            tree = await self._client.patch(
                PODS, key.name, {"metadata": {"uid": uid}, "status": status}, key.namespace, kind="strategic",
                subresource="status",
            )  # fmt: skip
        except StatusError as error:
            if error.code not in (404, 409):
                _log.warning("cannot write the status of pod %s: %s", key, error)
            return False
        except Unreachable as error:
            _log.info("cannot write the status of pod %s: %s", key, error)
            return False
        self._pods.record_write(tree)
        return True

    # --- reasons ---------------------------------------------------------------------------------------------------

    def _reasons(self, pod: QueuedPod, verdict: Verdict) -> Report:
        """Return what to report, the main cause first."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            return self._explainer.explain(pod, verdict)
        except Exception:  # noqa: BLE001 - without an explanation Kubernetes' message must still be written
            _log.exception("the reason why pod %s is pending could not be determined", pod.key)
            return Report((), verdict.cause)
        finally:
            self._spent += loop.time() - started


def condition_patch(pod: Tree, reason: str, message: str, now: str) -> Tree:
    """Return the status patch for the pod's PodScheduled condition; empty if it is up to date."""
    status = pod.get("status") or {}
    before: Tree = next((c for c in status.get("conditions") or () if c.get("type") == "PodScheduled"), {})
    if (before.get("status"), before.get("reason"), before.get("message")) == ("False", reason, message):
        return {}
    since = before.get("lastTransitionTime") if before.get("status") == "False" else None
    condition: Tree = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": since or now,
    }
    generation = pod["metadata"].get("generation")
    if generation:
        condition["observedGeneration"] = generation
    return {"conditions": [condition]}
