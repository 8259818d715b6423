"""Reports why pods are pending: the PodScheduled condition and the FailedScheduling event, with the engine's reasons.

Finding the smallest change that would help takes milliseconds, and longer with many devices. It is therefore done once
per group of equivalent pods, and limited to a share of the time, which is smaller while pods are being scheduled. Pods
without any report come first. A pod that is pending only for a moment gets no report.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from allotment.cluster.cache import Cache
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.recorder import Recorder
from allotment.cluster.resources import PODS
from allotment.engine.diagnosis.diagnoser import Diagnoser
from allotment.engine.diagnosis.reader import Reader
from allotment.engine.refusal import Diagnosis, NodeReason
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.model.trees import Tree
from allotment.node_fit.device_table import DEVICE_CAUSES
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.nodes import CachedNode
from allotment.scheduler import device_readiness, extended_resources
from allotment.scheduler.attempt import SchedulingAlgorithm
from allotment.scheduler.pods import QueuedPod
from allotment.scheduler.queue import EquivalenceGroup, SchedulingQueue
from allotment.scheduler.reporting import node_exclusion, resource_shortage
from allotment.scheduler.reporting.verdict import Verdict
from allotment.tools.explain import messages
from allotment.tools.explain.node_accounts import shared_reason
from allotment.tools.explain.obstacles import group_missing, refused_everywhere, too_many_consumers
from allotment.tools.explain.origin_mapping import ENDLESS, pending_diagnosis

_log = logging.getLogger(__name__)

#: Seconds before a pod without a feasible node is reported.
REPORT_DELAY: Final = 0.05
#: Diagnosis takes at most this share of the time while pods are scheduled, otherwise half, in slices of this many
#: seconds.
_TIME_SHARE: Final = 0.25
_TIME_SLICE: Final = 0.02
#: Diagnoses cached while nothing is allocated or freed.
_MAX_DIAGNOSES: Final = 256
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
        algorithm: SchedulingAlgorithm,
        clock: Clock,
        recorder: Recorder,
        pods: Cache[Any],
        *,
        busy: Callable[[], bool],
    ) -> None:
        self._client = client
        self._queue = queue
        self._algorithm = algorithm
        self._clock = clock
        self._recorder = recorder
        self._pods = pods
        self._busy = busy
        self._unreported: dict[object, tuple[EquivalenceGroup, float]] = {}
        """Groups with pods that have no report yet, and since when they wait."""
        self._updates: dict[object, tuple[EquivalenceGroup, float]] = {}
        """Groups whose report may have changed."""
        self._arrived = asyncio.Event()
        self._diagnoser: tuple[tuple[int, int], Diagnoser] | None = None
        self._diagnoses: dict[tuple[object, ...], tuple[Diagnosis, list[str], str]] = {}
        """Diagnoses, the names of the claims and of the special claim in them, by specs of the claims and nodes."""
        self._spent = 0.0
        self._reported: dict[str, tuple[str, str, float]] = {}
        """By pod uid: reason and Kubernetes' message as last reported, and when."""
        self._events: dict[str, tuple[object, ...]] = {}
        """By pod uid: the reason, cause and remedy of the last event."""
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
        for known in (self._reported, self._events, self._ordered):
            known.pop(uid, None)

    async def wait_written(self, uid: str) -> None:
        """Wait for the write in progress: after the binding it would say that the pod has no node."""
        if written := self._writing.get(uid):
            await written.wait()

    def cluster_changed(self) -> None:
        """Drop the diagnoser, because nodes, slices, classes or rules have changed."""
        self._diagnoser = None

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
        """Report a batch of pods of a group, all of one namespace; return whether more remain."""
        verdict = group.verdict
        if not isinstance(verdict, Verdict):
            return False  # it was made ready in the meantime
        now = asyncio.get_running_loop().time()  # diagnosis takes real, not simulated time
        due = [pod for pod in group.pods.values() if self._is_due(pod, verdict, now)]
        if not due:
            return False
        lines = self._reasons(due[0], verdict)
        # A tenant must not see the templates and claims of another one, which the lines may name.
        batch = [pod for pod in due if pod.key.namespace == due[0].key.namespace][:_BATCH_SIZE]
        # The verdict is that of some pod of the group, which is perhaps in another namespace.
        named = [str(claim.key) for claim in verdict.pending] or _claim_names(due[0].tree)
        gate = asyncio.Semaphore(_WRITERS)

        async def write(pod: QueuedPod) -> None:
            async with gate:
                await self._write(pod, verdict, _with_claim_names(lines, _own_names(named, pod)), now)

        async with asyncio.TaskGroup() as writers:
            for pod in batch:
                writers.create_task(write(pod))
        return len(due) > len(batch)

    def _is_due(self, pod: QueuedPod, verdict: Verdict, now: float) -> bool:
        reported = self._reported.get(pod.uid)
        if reported is None or reported[:2] != (verdict.reason, verdict.sentence):
            return True
        return now - reported[2] >= _UPDATE_INTERVAL

    async def _write(self, pod: QueuedPod, verdict: Verdict, lines: list[str], now: float) -> None:
        if pod.uid not in self._queue:
            return
        self._reported[pod.uid] = (verdict.reason, verdict.sentence, now)
        ordered = self._ordered_node(pod)
        lines = messages.machine_ordered(ordered) if ordered else lines
        message = messages.condition_message(lines, verdict.sentence)
        patch = condition_patch(pod.tree, verdict.reason, message, self._clock.now())
        if verdict.nominated_node is not None and verdict.nominated_node != pod.nominated_node:
            patch["nominatedNodeName"] = verdict.nominated_node or None
        if not patch:
            return
        # The autoscaler reports its order itself.
        if "conditions" in patch and not (ordered and pod.uid in self._events):
            self._record(pod, verdict, lines)
        written = self._writing[pod.uid] = asyncio.Event()
        try:
            await self.patch(pod.key, pod.uid, patch)
        finally:
            del self._writing[pod.uid]
            written.set()

    def _record(self, pod: QueuedPod, verdict: Verdict, lines: list[str]) -> None:
        """Record an event unless the last one has the same cause and remedy: the condition contains the counts."""
        note = messages.event_note(lines, verdict.sentence)
        cause = messages.cause_key("\n".join(lines)) if lines else (re.sub(r"[0-9]+", "#", verdict.sentence),)
        key = (verdict.reason, bool(verdict.nominated_node), *cause)
        if self._events.get(pod.uid) != key:
            self._events[pod.uid] = key
            self._recorder.event(pod.tree, "Warning", "FailedScheduling", note, "Scheduling")

    def _ordered_node(self, pod: QueuedPod) -> str:
        """Return the node that an autoscaler ordered for the pod and that is not ready yet, or an empty string."""
        name = pod.nominated_node or self._ordered.get(pod.uid, "")
        machine = self._algorithm.machines.by_name.get(name)
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

    def _reasons(self, pod: QueuedPod, verdict: Verdict) -> list[str]:
        """Return the lines to report, the main cause first."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            return self._explain(pod, verdict)
        except Exception:  # noqa: BLE001 - without an explanation Kubernetes' message must still be written
            _log.exception("the reason why pod %s is pending could not be determined", pod.key)
            return []
        finally:
            self._spent += loop.time() - started

    def _explain(self, pod: QueuedPod, verdict: Verdict) -> list[str]:
        if verdict.missing_group:
            key = ObjectKey(pod.key.namespace, verdict.missing_group)
            return messages.diagnosis_lines(str(pod.key), group_missing(key, self._algorithm.groups.known()))
        if verdict.full_claim is not None:
            return messages.diagnosis_lines(str(pod.key), too_many_consumers(*verdict.full_claim))
        machines = self._algorithm.machines
        refusals = verdict.refusals
        if (taken := self._shared_claim(verdict)) is not None:
            return messages.diagnosis_lines(str(pod.key), shared_reason(taken))
        lacking: list[str] | None = None
        if verdict.pending and (refusals is None or any(r.cause in DEVICE_CAUSES for r in refusals.values())):
            if refusals is None:
                lacking = [machine.name for machine in machines]
            else:
                lacking = [
                    m.name for place, r in refusals.items() if r.cause in DEVICE_CAUSES and (m := machines.at(place))
                ]
        others = [
            (machine, refusal)
            for place, refusal in (refusals or {}).items()
            if refusal.cause not in (*DEVICE_CAUSES, "claim") and (machine := machines.at(place)) is not None
        ]
        way = node_exclusion.nearest_node(pod, others, self._has_devices(verdict)) if lacking is not None else None
        cause_lines = self._diagnose(pod, verdict, lacking, way) if lacking is not None else []
        failed = [name for name in verdict.unreachable_claims if self._has_failed(name)]
        away = [self._elsewhere(claim) for claim in verdict.unreachable_claims if claim not in failed]
        if failed and not cause_lines:
            cause_lines = [
                f"the devices of claim {name} did not become ready; the claim is freed and allocated again"
                for name in failed
            ]
        elif away and not cause_lines:
            way = node_exclusion.nearest_node(pod, others, self._has_all(verdict))
            cause_lines = messages.diagnosis_lines(
                str(pod.key), _with_changes(refused_everywhere("claim-on-other-node", away.pop(0)), way)
            )
        if short := resource_shortage.device_shortages(pod.demand, others):
            # These nodes have the devices, so they are nearer to fitting than all others.
            cause_lines = resource_shortage.device_shortage_lines(pod, short)
            others = [(machine, refusal) for machine, refusal in others if machine.name not in short]
        elif not cause_lines:
            cause_lines = self._unserved(pod, others) or node_exclusion.exclusion_lines(
                pod, others, self._has_devices(verdict)
            )
        if way is not None:  # it is reported together with the devices that other nodes lack
            others = [(machine, refusal) for machine, refusal in others if machine.name != way.nodes[0]]
        lines = [
            *(f"{summary} (claim-on-other-node)" for summary in away),
            *resource_shortage.shortage_lines(pod.demand, others),
        ]
        if cause_lines:
            return [*cause_lines, *(f"  {line}" for line in lines if line not in cause_lines[0])]
        return [*lines[:1], *(f"  {line}" for line in lines[1:])]

    def _shared_claim(self, verdict: Verdict) -> ResourceClaim | None:
        """Return a claim of another pod that stands for cpu, memory or huge pages of its node, if it is the reason."""
        name = next((r.shared_claim for r in (verdict.refusals or {}).values() if r.shared_claim), "")
        claim = self._algorithm.ledger.known.get(ObjectKey(*name.split("/", 1))) if name else None
        if claim is None or claim.allocation is None:
            return None
        return claim.with_allocation(claim.allocation)

    def _has_devices(self, verdict: Verdict) -> Callable[[CachedNode], bool]:
        """Return a predicate: whether the pod's claims fit on a node."""
        if not verdict.pending:
            return lambda machine: True
        fits = self._algorithm.devices.of(verdict.pending).fits
        return lambda machine: bool(fits >> machine.index & 1)

    def _has_all(self, verdict: Verdict) -> Callable[[CachedNode], bool]:
        """Return a predicate: whether the pod's allocated claims are usable on a node and the others fit there."""
        keys = (ObjectKey(*name.split("/", 1)) for name in verdict.unreachable_claims)
        claims = [self._algorithm.ledger.known.get(key) for key in keys]
        fits = self._has_devices(verdict)
        return lambda machine: (
            fits(machine) and all(claim is not None and claim.is_usable_on(machine.facts) for claim in claims)
        )

    def _unserved(self, pod: QueuedPod, refused: list[tuple[CachedNode, Refusal]]) -> list[str]:
        """Return lines for an extended resource without any provider, if resources are why nodes were refused."""
        if not any(refusal.cause == "resources" for _, refusal in refused):
            return []
        attempts = self._algorithm
        found = extended_resources.unserved_diagnosis(
            attempts.allocator.inventory.classes, pod.demand, attempts.machines, attempts.features
        )
        return messages.diagnosis_lines(str(pod.key), found) if found is not None else []

    def _has_failed(self, name: str) -> bool:
        """Whether the devices of an allocated claim failed to become ready (binding conditions)."""
        claim = self._algorithm.ledger.known.get(ObjectKey(*name.split("/", 1)))
        return claim is not None and (
            claim.uid in self._algorithm.ledger.unusable or bool(device_readiness.of(claim.tree).failure)
        )

    def _elsewhere(self, name: str) -> str:
        namespace, _, claim_name = name.partition("/")
        claim = self._algorithm.ledger.known.get(ObjectKey(namespace, claim_name))
        if claim is None:
            return f"claim {name} is allocated on a node where the pod cannot run"
        where = [m.name for m in self._algorithm.machines if claim.is_usable_on(m.facts)]
        node_names = resource_shortage.summarize_names(where) if where else "an unknown node"
        return f"claim {name} is allocated on {node_names}, where the pod cannot run"

    def _diagnose(self, pod: QueuedPod, verdict: Verdict, nodes: list[str], way: NodeReason | None) -> list[str]:
        inventory, ledger = self._algorithm.allocator.inventory, self._algorithm.ledger
        at = (ledger.version, inventory.journal.end)
        if self._diagnoser is None or self._diagnoser[0] != at:
            self._diagnoser = (at, Diagnoser(inventory, ledger.allocated_claims()))
            self._diagnoses.clear()
        templates = _templates(pod.tree)
        names = [f"{claim.metadata.namespace}/{claim.metadata.name}" for claim in verdict.pending]
        origin = tuple(templates.get(ObjectKey(c.metadata.namespace, c.metadata.name), "") for c in verdict.pending)
        cache_key = (*(id(claim.spec) for claim in verdict.pending), pod.key.namespace, *origin, *nodes)
        found = self._diagnoses.get(cache_key)
        if found is None:
            special = f"ResourceClaim {pod.key}-extended-resources"
            found = (self._diagnoser[1].diagnose(verdict.pending, nodes, Reader.of(pod.key.namespace)), names, special)
            if len(self._diagnoses) < _MAX_DIAGNOSES:
                self._diagnoses[cache_key] = found
        diagnosis, cached_names, special = found
        cached_templates = {
            ObjectKey(*name.split("/", 1)): template
            for name, template in zip(cached_names, origin, strict=True)
            if template
        }
        inside = inventory.node_mask(nodes)
        diagnosis = pending_diagnosis(
            diagnosis,
            node_exclusion.pod_of(pod.tree),
            cached_templates,
            special,
            (way,) if way is not None else (),
            ended=way is not None and bool(self._algorithm.devices.of(verdict.pending).errors & inside),
            is_endless=self._is_endless,
        )
        lines = messages.diagnosis_lines(str(pod.key), diagnosis)
        return _with_claim_names(lines, {old: new for old, new in zip(cached_names, names, strict=True) if old != new})

    def _is_endless(self, claim: ObjectKey) -> bool:
        """Whether a pod that uses a claim does not end by itself."""
        known = self._algorithm.ledger.known.get(claim)
        users = (known.tree.get("status") or {}).get("reservedFor") or () if known is not None else ()
        pods = (self._pods.item(claim.namespace, user["name"]) for user in users)
        return any(
            owner.get("controller") and owner["kind"] in ENDLESS
            for pod in pods
            if pod is not None
            for owner in pod.tree["metadata"].get("ownerReferences") or ()
        )


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


def _with_changes(reasons: Diagnosis, way: NodeReason | None) -> Diagnosis:
    """Add the changes that let the pod onto the nearest node to a diagnosis that holds on all nodes."""
    changes = way.refused.changes if way is not None else ()
    return replace(reasons, headline=replace(reasons.headline, changes=changes))


def _with_claim_names(lines: list[str], names: Mapping[str, str]) -> list[str]:
    """Replace the claim names of a group's first pod by those of another pod."""
    if not names:
        return lines
    pattern = re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)))
    return [pattern.sub(lambda found: names[found[0]], line) for line in lines]


def _own_names(named: list[str], pod: QueuedPod) -> dict[str, str]:
    """Return the names of a pod's claims by those of an equivalent pod; empty if ``named`` are its own."""
    own = [*_claim_names(pod.tree), f"{pod.key}-extended-resources"]
    return {} if set(named) <= set(own) else dict(zip(named, own, strict=False))


def _claim_names(pod: Tree) -> list[str]:
    """Return the pod's claims in the order of its entries."""
    namespace = pod["metadata"].get("namespace", "")
    generated = _generated(pod)
    names = [e.get("resourceClaimName") or generated.get(e["name"]) for e in pod["spec"].get("resourceClaims") or ()]
    return [f"{namespace}/{name}" for name in names if name]


def _generated(pod: Tree) -> dict[str, str]:
    """Return claim names by entry."""
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return {s["name"]: s["resourceClaimName"] for s in statuses if s.get("resourceClaimName")}


def _templates(pod: Tree) -> dict[ObjectKey, str]:
    """Return template names by the claims generated from them."""
    namespace = pod["metadata"].get("namespace", "")
    generated = _generated(pod)
    return {
        ObjectKey(namespace, name): entry["resourceClaimTemplateName"]
        for entry in pod["spec"].get("resourceClaims") or ()
        if entry.get("resourceClaimTemplateName") and (name := generated.get(entry["name"]))
    }
