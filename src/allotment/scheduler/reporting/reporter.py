"""Tells pods why they wait: the PodScheduled condition and the FailedScheduling event, with the engine's reasons.

To find the smallest change that would help takes milliseconds, or many where there are many devices. So it is done once
for all pods of a group, and never for more than a part of the time, a smaller one while there are pods to place. Those
who have heard nothing come first. A pod that waits only for a moment is told nothing.
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
from allotment.engine.refusal import Diagnosis, NodeReason
from allotment.model.meta import ObjectKey
from allotment.model.trees import Tree
from allotment.node_fit.device_table import DEVICE_CAUSES
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.nodes import Machine
from allotment.scheduler import extended_resources
from allotment.scheduler.attempt import Attempts
from allotment.scheduler.pods import WaitingPod
from allotment.scheduler.queue import Group, Queue
from allotment.scheduler.reporting import node_exclusion, resource_shortage
from allotment.scheduler.reporting.verdict import Verdict
from allotment.tools.explain import messages
from allotment.tools.explain.obstacles import group_missing, too_many_consumers
from allotment.tools.explain.obstacles import refused_everywhere as told_of
from allotment.tools.explain.origin_mapping import by_origin, with_excluded

_log = logging.getLogger(__name__)

#: Seconds before a pod that found no node is told so.
_PATIENCE: Final = 0.05
#: Looking for reasons takes at most this part of the time while pods are placed, else half, in pieces of so many
#: seconds.
_SHARE: Final = 0.25
_IN_ONE_GO: Final = 0.02
#: Diagnoses that are kept while nothing is allocated or freed.
_DIAGNOSES: Final = 256
#: Writes at a time.
_WRITERS: Final = 8
#: Pods of a group that are told in one go before others have their turn.
_AT_ONCE: Final = 200
#: A group whose sentence has not changed is explained anew at most this often, in seconds.
_AGAIN: Final = 10.0


class Teller:
    """Writes verdicts."""

    def __init__(
        self, client: Client, queue: Queue, attempts: Attempts, clock: Clock, recorder: Recorder, pods: Cache[Any], *,
        busy: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._client = client
        self._queue = queue
        self._attempts = attempts
        self._clock = clock
        self._recorder = recorder
        self._pods = pods
        self._busy = busy
        self._unheard: dict[object, tuple[Group, float]] = {}
        """Groups, and since when they are to be told: some pods have heard nothing yet."""
        self._others: dict[object, tuple[Group, float]] = {}
        """Groups that have something new to hear, perhaps."""
        self._arrived = asyncio.Event()
        self._diagnoser: tuple[tuple[int, int], Diagnoser] | None = None
        self._diagnoses: dict[tuple[object, ...], tuple[Diagnosis, list[str]]] = {}
        """Reasons and the names of the claims in them, for claims with equal specs on the same nodes."""
        self._spent = 0.0
        self._told: dict[str, tuple[str, str, float]] = {}
        """By pod (uid): reason and Kubernetes' sentence as last told, and when."""
        self._saying: dict[str, asyncio.Event] = {}
        """By pod (uid): set when what is being written has been."""

    def tell(self, group: Group) -> None:
        """Pods of this group are to be told, soon."""
        unheard = any(uid not in self._told for uid in group.pods)
        waiting = self._unheard if unheard else self._others
        _, since = waiting.get(group.key, (group, self._clock.seconds()))
        waiting[group.key] = (group, since)
        self._arrived.set()

    def tell_alone(self, pod: WaitingPod, verdict: Verdict) -> None:
        """A pod that shares its verdict with nobody is to be told, soon."""
        group = Group(("alone", pod.uid), pod.priority)
        group.pods[pod.uid] = pod
        group.verdict = verdict
        self.tell(group)

    def forget(self, uid: str) -> None:
        """A pod waits no longer."""
        self._told.pop(uid, None)

    async def finished(self, uid: str) -> None:
        """Wait until a pod has heard what it is being told: after its binding it would say that the pod has no node."""
        if saying := self._saying.get(uid):
            await saying.wait()

    def cluster_changed(self) -> None:
        """Nodes, slices, classes or rules are no longer those that reasons were found with."""
        self._diagnoser = None

    async def run(self) -> None:
        """Tell for ever."""
        while True:
            waiting = self._unheard or self._others
            if not waiting:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            key, (group, since) = next(iter(waiting.items()))
            left = since + _PATIENCE - self._clock.seconds()
            if left > 0:
                await self._clock.sleep(left)
                continue
            del waiting[key]
            if await self._tell_group(group):
                self.tell(group)
            if self._spent > _IN_ONE_GO:
                await self._rest()

    async def _rest(self) -> None:
        """Let others have their turn, for long only if they need it."""
        loop = asyncio.get_running_loop()
        spent, self._spent = self._spent, 0.0
        end = loop.time() + spent * (1 / _SHARE - 1)
        await asyncio.sleep(spent)
        while self._busy() and loop.time() < end:
            await asyncio.sleep(_IN_ONE_GO)

    async def _tell_group(self, group: Group) -> bool:
        """Tell some pods of a group; whether there are more."""
        verdict = group.verdict
        if not isinstance(verdict, Verdict):
            return False  # it was woken meanwhile
        now = asyncio.get_running_loop().time()  # looking for reasons is no simulated work
        untold = [pod for pod in group.pods.values() if self._is_news(pod, verdict, now)]
        if not untold:
            return False
        told = self._reasons(untold[0], verdict)
        first = _claim_names(untold[0].tree)
        gate = asyncio.Semaphore(_WRITERS)

        async def write(pod: WaitingPod) -> None:
            async with gate:
                own = {old: new for old, new in zip(first, _claim_names(pod.tree), strict=False) if old != new}
                await self._write(pod, verdict, _for(told, own), now)

        async with asyncio.TaskGroup() as writers:
            for pod in untold[:_AT_ONCE]:
                writers.create_task(write(pod))
        return len(untold) > _AT_ONCE

    def _is_news(self, pod: WaitingPod, verdict: Verdict, now: float) -> bool:
        told = self._told.get(pod.uid)
        if told is None or told[:2] != (verdict.reason, verdict.sentence):
            return True
        return now - told[2] >= _AGAIN

    async def _write(self, pod: WaitingPod, verdict: Verdict, told: list[str], now: float) -> None:
        if pod.uid not in self._queue:
            return
        self._told[pod.uid] = (verdict.reason, verdict.sentence, now)
        message = messages.condition_message(told, verdict.sentence)
        patch = condition_patch(pod.tree, verdict.reason, message, self._clock.now())
        if verdict.nominated is not None and verdict.nominated != pod.nominated:
            patch["nominatedNodeName"] = verdict.nominated or None
        if not patch:
            return
        if "conditions" in patch:
            note = messages.event_note(told, verdict.sentence)
            self._recorder.event(pod.tree, "Warning", "FailedScheduling", note, "Scheduling")
        said = self._saying[pod.uid] = asyncio.Event()
        try:
            await self.patch(pod.key, pod.uid, patch)
        finally:
            del self._saying[pod.uid]
            said.set()

    async def patch(self, key: ObjectKey, uid: str, status: Tree) -> bool:
        """Change a pod's status, if it is still that pod."""
        try:
            tree = await self._client.patch(
                PODS, key.name, {"metadata": {"uid": uid}, "status": status}, key.namespace, kind="strategic",
                subresource="status",
            )  # fmt: skip
        except StatusError as error:
            if error.code not in (404, 409):
                _log.warning("status of pod %s: %s", key, error)
            return False
        except Unreachable as error:
            _log.info("status of pod %s: %s", key, error)
            return False
        self._pods.noted(tree)
        return True

    # --- reasons ---------------------------------------------------------------------------------------------------

    def _reasons(self, pod: WaitingPod, verdict: Verdict) -> list[str]:
        """What to tell, one line each; the cause comes first."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            return self._explained(pod, verdict)
        except Exception:  # noqa: BLE001 - whatever is wrong with the explanation, the pod must hear Kubernetes' words
            _log.exception("the reasons of pod %s could not be told", pod.key)
            return []
        finally:
            self._spent += loop.time() - began

    def _explained(self, pod: WaitingPod, verdict: Verdict) -> list[str]:
        if verdict.group:
            key = ObjectKey(pod.key.namespace, verdict.group)
            return messages.diagnosis_lines(str(pod.key), group_missing(key, self._attempts.groups.known()))
        if verdict.full is not None:
            return messages.diagnosis_lines(str(pod.key), too_many_consumers(*verdict.full))
        machines = self._attempts.machines
        refusals = verdict.refusals
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
        way = node_exclusion.way_in(pod, others, self._has_devices(verdict)) if lacking is not None else None
        told = self._diagnosed(pod, verdict, lacking, way) if lacking is not None else []
        away = [self._elsewhere(claim) for claim in verdict.elsewhere]
        if away and not told:
            way = node_exclusion.way_in(pod, others, self._has_all(verdict))
            told = messages.diagnosis_lines(str(pod.key), _toward(told_of("claim-on-other-node", away.pop(0)), way))
        elif not told:
            told = self._unserved(pod, others) or node_exclusion.reasons_of(pod, others, self._has_devices(verdict))
        if way is not None:  # which is told with what it lacks elsewhere
            others = [(machine, refusal) for machine, refusal in others if machine.name != way.nodes[0]]
        lines = [
            *(f"{summary} (claim-on-other-node)" for summary in away),
            *resource_shortage.lines(pod.demand, others),
        ]
        if told:
            return [*told, *(f"  {line}" for line in lines if line not in told[0])]
        return [*lines[:1], *(f"  {line}" for line in lines[1:])]

    def _has_devices(self, verdict: Verdict) -> Callable[[Machine], bool]:
        """Whether the pod's claims fit on a node, as far as devices go."""
        if not verdict.pending:
            return lambda machine: True
        fits = self._attempts.devices.of(verdict.pending).fits
        return lambda machine: bool(fits >> machine.place & 1)

    def _has_all(self, verdict: Verdict) -> Callable[[Machine], bool]:
        """Whether the pod's claims that are allocated reach a node, and the others fit on it."""
        keys = (ObjectKey(*name.split("/", 1)) for name in verdict.elsewhere)
        claims = [self._attempts.ledger.known.get(key) for key in keys]
        fits = self._has_devices(verdict)
        return lambda machine: (
            fits(machine) and all(claim is not None and claim.reaches(machine.facts) for claim in claims)
        )

    def _unserved(self, pod: WaitingPod, refused: list[tuple[Machine, Refusal]]) -> list[str]:
        """An extended resource that is nowhere; where some nodes stand open to the pod, but for that."""
        if not any(refusal.cause == "resources" for _, refusal in refused):
            return []
        attempts = self._attempts
        found = extended_resources.unserved(
            attempts.allocator.inventory.classes, pod.demand, attempts.machines, attempts.features
        )
        return messages.diagnosis_lines(str(pod.key), found) if found is not None else []

    def _elsewhere(self, name: str) -> str:
        namespace, _, claim_name = name.partition("/")
        claim = self._attempts.ledger.known.get(ObjectKey(namespace, claim_name))
        if claim is None:
            return f"claim {name} is allocated where the pod may not run"
        where = [m.name for m in self._attempts.machines if claim.reaches(m.facts)]
        there = resource_shortage.named(where) if where else "a node that is not known"
        return f"claim {name} is allocated on {there}, where the pod may not run"

    def _diagnosed(self, pod: WaitingPod, verdict: Verdict, nodes: list[str], way: NodeReason | None) -> list[str]:
        inventory, ledger = self._attempts.allocator.inventory, self._attempts.ledger
        at = (ledger.version, inventory.journal.end)
        if self._diagnoser is None or self._diagnoser[0] != at:
            self._diagnoser = (at, Diagnoser(inventory, ledger.holding()))
            self._diagnoses.clear()
        templates = _templates(pod.tree)
        names = [f"{claim.metadata.namespace}/{claim.metadata.name}" for claim in verdict.pending]
        origin = tuple(templates.get(ObjectKey(c.metadata.namespace, c.metadata.name), "") for c in verdict.pending)
        alike = (*(id(claim.spec) for claim in verdict.pending), pod.key.namespace, *origin, *nodes)
        found = self._diagnoses.get(alike)
        if found is None:
            diagnosis = self._diagnoser[1].diagnose(verdict.pending, nodes)
            diagnosis = by_origin(diagnosis, templates, f"ResourceClaim {pod.key}-extended-resources")
            found = (diagnosis, names)
            if len(self._diagnoses) < _DIAGNOSES:
                self._diagnoses[alike] = found
        diagnosis, theirs = found
        if way is not None:
            inside = inventory.node_mask(nodes)
            ended = bool(self._attempts.devices.of(verdict.pending).stops & inside)
            diagnosis = with_excluded(diagnosis, (way,), ended)
        lines = messages.diagnosis_lines(str(pod.key), diagnosis)
        return _for(lines, {old: new for old, new in zip(theirs, names, strict=True) if old != new})


def condition_patch(pod: Tree, reason: str, message: str, now: str) -> Tree:
    """The change of status that makes the pod's PodScheduled condition say this; empty if it says so already."""
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


def _toward(reasons: Diagnosis, way: NodeReason | None) -> Diagnosis:
    """Reasons that hold on every node, with a way to one where they do not."""
    changes = way.refused.changes if way is not None else ()
    return replace(reasons, headline=replace(reasons.headline, changes=changes))


def _for(told: list[str], names: Mapping[str, str]) -> list[str]:
    """The reasons of the first pod of a group, with another pod's claims in place of its own."""
    if not names:
        return told
    pattern = re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)))
    return [pattern.sub(lambda found: names[found[0]], line) for line in told]


def _claim_names(pod: Tree) -> list[str]:
    """The pod's claims, in order."""
    namespace = pod["metadata"].get("namespace", "")
    generated = _generated(pod)
    names = [e.get("resourceClaimName") or generated.get(e["name"]) for e in pod["spec"].get("resourceClaims") or ()]
    return [f"{namespace}/{name}" for name in names if name]


def _generated(pod: Tree) -> dict[str, str]:
    """Claim by entry."""
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return {s["name"]: s["resourceClaimName"] for s in statuses if s.get("resourceClaimName")}


def _templates(pod: Tree) -> dict[ObjectKey, str]:
    """Template by claim generated from it."""
    namespace = pod["metadata"].get("namespace", "")
    generated = _generated(pod)
    return {
        ObjectKey(namespace, name): entry["resourceClaimTemplateName"]
        for entry in pod["spec"].get("resourceClaims") or ()
        if entry.get("resourceClaimTemplateName") and (name := generated.get(entry["name"]))
    }
