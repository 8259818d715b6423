"""The annotator as a program: events on pending pods that request devices, whatever their scheduler.

Kubernetes' scheduler reports "cannot allocate all claims", not which device lacked what; for a pod whose claim cannot
be created it reports nothing. A cluster with that scheduler can use this program in addition: it reads, explains all
pending pods as ``allot explain`` does, and writes only events. A pod gets another event only when the reason changes,
also after a restart: an annotation of the event identifies the reason. While it does not change, the event is repeated
before the API server deletes it.

A pod must be pending for some time first. Only time in which the cluster was observed counts: its state during a
disconnection is unknown, and after a reconnection its scheduler and controllers need a moment, too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from math import inf
from time import thread_time
from typing import Any, Final, NamedTuple

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.lasting_events import REPEAT_SECONDS, LastingEvents, StateEvent
from allotment.cluster.program import Program, ProgramContext
from allotment.cluster.recorder import COMBINED
from allotment.cluster.resources import EVENTS, NODES, PODS
from allotment.cluster.typed_objects import Objects, kinds_to_explain, queue_order
from allotment.engine.diagnosis.reader import Reader
from allotment.explanation import Answer, explain, messages
from allotment.explanation.cause_key import CauseKey
from allotment.explanation.subjects import other_pods
from allotment.model.core import Pod
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.model.trees import Tree
from allotment.node_fit.nodes import is_provisioning

log = logging.getLogger(__name__)

NAME: Final = "allotment-annotator"
UNAVAILABLE, AVAILABLE = "DevicesUnavailable", "DevicesAvailable"
#: The ``action`` field of events.k8s.io/v1.
_ACTION: Final = "Explaining"
_SCHEDULER_REASON: Final = "Last message of the scheduler: "
_NO_REASON: Final = "The scheduler has not reported a reason."
#: The annotation of an event that identifies what it says (`_state`).
_STATE: Final = "allotment.dev/state"
#: The metadata of an object in a reference to it.
_REFERENCE: Final = ("namespace", "name", "uid", "resourceVersion")
#: The maximum share of a CPU core spent on explanations.
_SHARE: Final = 0.2


class Options(NamedTuple):
    """``delay``: seconds that a pod must be observed pending, without interruption, before it is explained.
    ``every``: seconds between two batches. ``most``: maximum number of pods (and events) in a batch; the others follow
    in the next. ``tries``: limits the search for changes that would help, which takes most of the time."""

    features: Features
    delay: float = 5.0
    every: float = 2.0
    most: int = 100
    tries: int = 200


def annotator(options: Options) -> Program:
    """Create the annotator program."""

    async def run(context: ProgramContext) -> None:
        await _Annotator(context, options).run()

    return run


class _Annotator:
    def __init__(self, context: ProgramContext, options: Options) -> None:
        self._options = options
        self._clock = context.clock
        self._client: Client = context.client_for(NAME)
        self._recorder = context.recorder(NAME)
        self._observing = context.observing
        self._pods = context.caches.trees(PODS)
        self._nodes = context.caches.trees(NODES)
        self._objects = Objects(context.caches, kinds_to_explain(options.features))
        self._changed = asyncio.Event()
        self._age = 1
        """The number of observed changes of the cluster."""
        self._pending_since: dict[str, float] = {}
        """When pods (uid) were first observed pending, by the clock's ``seconds``."""
        self._explained_at: dict[str, int] = {}
        """The age at which pods (uid) were last explained."""
        self._reported = LastingEvents(self._recorder, context.clock, self._is_explained)
        """The last event of each pod, by `_state`."""

    async def run(self) -> None:
        """Explain pending pods until cancelled."""
        await self._objects.synced()
        await self._resume_earlier_events()
        end = self._objects.on_change(self._on_change)
        self._changed.set()
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                spent = await self._explain_some()
                await self._clock.sleep(max(self._options.every, spent / _SHARE))
        finally:
            self._reported.close()
            end()

    def _on_change(self) -> None:
        """Invalidate earlier explanations."""
        self._age += 1
        self._changed.set()

    async def _explain_some(self) -> float:
        """Explain a batch of pending pods. Returns the CPU seconds spent: where other processes use the CPU, too, the
        time that passes would delay the next batch by minutes."""
        spent, age = 0.0, self._age
        self._drop_deleted()
        due = [pod for pod in self._due() if self._explained_at.get(pod.uid, 0) < age]
        due.sort(key=lambda pod: (self._explained_at.get(pod.uid, 0), queue_order(pod)))
        if len(due) > self._options.most:
            self._changed.set()
        due = due[: self._options.most]
        if due:
            with self._observing.work("explain"):
                uids = {pod.uid for pod in due}
                answers, spent = await asyncio.to_thread(self._explained, self._objects.values(), uids)
            reported = [pod for pod in due if self._report(pod, answers.get(f"{pod.namespace}/{pod.name}"))]
            self._explained_at |= {pod.uid: age for pod in due}
            if reported:
                log.info("explained %d pending pods", len(reported))
        return spent * self._clock.speed

    def _due(self) -> Iterator[CachedItem[Any]]:
        """Pods that have been pending long enough; schedules another batch for the others."""
        now, delay = self._clock.seconds(), self._options.delay
        unbroken = max(cache.since for cache in self._objects.caches)
        waiting = [pod for pod in self._pods.items() if _waits(pod)]
        self._pending_since = {pod.uid: self._pending_since.get(pod.uid, now) for pod in waiting}
        soonest = inf
        for pod in waiting:
            left = max(self._pending_since[pod.uid], unbroken) + delay - now
            if left > 0:
                soonest = min(soonest, left, delay)
            else:
                yield pod
        if soonest < inf:
            self._clock.later(soonest, self._changed.set)

    def _explained(self, values: Sequence[Object], due: set[str]) -> tuple[dict[str, Answer], float]:
        """The answers by pod name, and the CPU seconds of this thread. Pods that are not due are not explained."""
        start = thread_time()
        selected = [value for value in values if not isinstance(value, Pod) or value.metadata.uid in due]
        others = other_pods(values, selected)
        answers = explain(selected, self._options.features, self._options.tries, others, readers=Reader.of).answers
        return {answer.name: answer for answer in answers if answer.kind == "Pod"}, thread_time() - start

    def _report(self, pod: CachedItem[Any], answer: Answer | None) -> bool:
        """Record an event if the reason changed; returns whether it did."""
        if answer is None:
            return False
        reason = _condition(pod)
        last = f"{_SCHEDULER_REASON}{reason}" if reason else _NO_REASON
        if answer.reasons is not None:
            name = str(pod.status.get("nominatedNodeName") or "")
            node = self._nodes.tree("", name)
            ordered = node is not None and is_provisioning(node)
            report = (
                messages.machine_ordered(name) if ordered else messages.diagnosis_report(answer.name, answer.reasons)
            )
            note, cause = messages.event_note(report.lines, last), report.cause
        elif reason:
            devices = ", ".join(device.device for claim in answer.claims for device in claim.devices)
            note = f"The pod's claims now fit on node {answer.node} ({devices}). {last}"
            cause = CauseKey("", "fits")
        else:
            return False  # it may be scheduled at any moment, so an event would be of no use
        state = _state(cause, is_rejected=bool(reason))
        event = StateEvent(
            {**pod.tree, "apiVersion": "v1", "kind": "Pod"},
            "Normal" if answer.fits else "Warning",
            AVAILABLE if answer.fits else UNAVAILABLE,
            note,
            _ACTION,
            {_STATE: state},
        )
        if not self._reported.record(pod.uid, state, event):
            return False
        log.debug("pod %s/%s: %s", pod.namespace, pod.name, note.partition("\n")[0])
        return True

    def _is_explained(self, uid: str) -> bool:
        """Whether a pod still waits, so that its last event still tells its state."""
        return uid in self._pending_since

    async def _resume_earlier_events(self) -> None:
        """Continue with the last event of each pod from an earlier process, from those that the cluster still has."""
        try:
            listing = await self._client.list(EVENTS, fields=f"reportingComponent={NAME}")
        except StatusError as error:
            log.warning("cannot read earlier events, so events may be repeated: %s", error)
            return
        for event in sorted(listing.items, key=_last_observed):
            state = (event["metadata"].get("annotations") or {}).get(_STATE)
            about = event["involvedObject"]
            if state is None or not about.get("uid"):
                continue
            left = self._clock.left(_last_observed(event), REPEAT_SECONDS) if _last_observed(event) else 0.0
            self._reported.resume(about["uid"], state, _earlier_event(event, state), left)

    def _drop_deleted(self) -> None:
        existing = {pod.uid for pod in self._pods.items()}
        self._reported.keep(existing)
        for uid in self._explained_at.keys() - existing:
            del self._explained_at[uid]


def _earlier_event(event: Tree, state: str) -> StateEvent:
    """The event of an earlier process, to be repeated."""
    about = event["involvedObject"]
    metadata = {name: about[name] for name in _REFERENCE if about.get(name)}
    return StateEvent(
        {"apiVersion": about.get("apiVersion", ""), "kind": about.get("kind", ""), "metadata": metadata},
        "Normal" if event.get("type") == "Normal" else "Warning",
        event.get("reason", ""),
        event.get("message", "").removeprefix(COMBINED),
        _ACTION,
        {_STATE: state},
    )


def _last_observed(event: Tree) -> str:
    """When an event was last observed; ``eventTime`` is when it was first."""
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("eventTime") or "")


def _state(cause: CauseKey, *, is_rejected: bool) -> str:
    """The identity of the state that an event reports: cause and remedy, and whether the scheduler has reported a
    reason. Its change requires a new event, unlike the number of devices in use, which changes all the time."""
    return f"{cause.digest()}-{'rejected' if is_rejected else 'not-reported'}"


def _waits(pod: CachedItem[Any]) -> bool:
    """Whether a pod with claims or extended resources is waiting for a scheduler."""
    if pod.spec.get("nodeName") or pod.deleting or pod.spec.get("schedulingGates"):
        return False
    return pod.status.get("phase") in (None, "", "Pending") and (
        bool(pod.spec.get("resourceClaims")) or any("/" in name for name in _counted(pod))
    )


def _counted(pod: CachedItem[Any]) -> Iterator[str]:
    for field in ("initContainers", "containers"):
        for container in pod.spec.get(field) or ():
            resources = container.get("resources") or {}
            yield from {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _condition(pod: CachedItem[Any]) -> str:
    """The scheduler's last message in the pod's PodScheduled condition."""
    for condition in pod.status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return " ".join(str(condition.get("message", "")).split())
    return ""
