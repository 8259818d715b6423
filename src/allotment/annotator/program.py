"""Tells pods that wait for devices why, as events of theirs, whichever scheduler is to place them.

Kubernetes' own scheduler says "cannot allocate all claims" and not which device was missing what; of a pod whose
claim cannot be made it says nothing at all. A cluster that keeps it can have our reasons beside it: this program reads,
explains all that waits as ``allot explain`` does, and writes events and nothing else. A pod is told again only when the
reason is another one, also after a restart.

A pod is left a while to be placed. That is time in which we saw it wait: what became of it while the cluster could not
be seen nobody knows, and when the cluster is back, its scheduler and controllers need a moment, too.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, Final, NamedTuple

from allotment.cluster.cached_item import Item
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.program import Context, Program
from allotment.cluster.recorder import COMBINED
from allotment.cluster.resources import EVENTS, PODS
from allotment.cluster.typed_objects import Objects, queue_order
from allotment.model.core import Pod
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.model.trees import Tree
from allotment.tools.explain import Answer, explain, messages

log = logging.getLogger(__name__)

NAME: Final = "allotment-annotator"
WAITS, FITS = "DevicesUnavailable", "DevicesAvailable"
#: As events.k8s.io/v1 names what was done.
_ACTION: Final = "Explaining"
_SAID: Final = "The scheduler says: "
_SILENT: Final = "The scheduler has said nothing of it."
#: Explaining may take this part of the time.
_SHARE: Final = 0.2


class Options(NamedTuple):
    """``patience``: seconds that a pod was seen to wait, without a break, before it is told. ``every``: seconds
    between two looks. ``most``: pods that are explained in one, and so events of one; the others follow in the next.
    ``tries``: bounds the search for changes that would help, which takes longest."""

    features: Features
    patience: float = 5.0
    every: float = 2.0
    most: int = 100
    tries: int = 200


def annotator(options: Options) -> Program:
    """The program."""

    async def run(context: Context) -> None:
        await _Annotator(context, options).run()

    return run


class _Annotator:
    def __init__(self, context: Context, options: Options) -> None:
        self._options = options
        self._clock = context.clock
        self._client: Client = context.client_for(NAME)
        self._recorder = context.recorder(NAME)
        self._observing = context.observing
        self._pods = context.caches.trees(PODS)
        self._objects = Objects(context.caches)
        self._changed = asyncio.Event()
        self._age = 1
        """How often the cluster has changed, as far as it was looked at."""
        self._seen: dict[str, float] = {}
        """Since when pods (uid) wait that do, as far as was seen, by the clock's ``seconds``."""
        self._looked: dict[str, int] = {}
        """When pods (uid) were explained last, as such an age."""
        self._told: dict[str, tuple[str, bool]] = {}
        """What pods (uid) were told last, in short."""

    async def run(self) -> None:
        """Explain for ever."""
        await self._objects.synced()
        self._told = await _told_before(self._client)
        end = self._objects.on_change(self._grown)
        self._changed.set()
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                spent = await self._look()
                await self._clock.sleep(max(self._options.every, spent / _SHARE))
        finally:
            end()

    def _grown(self) -> None:
        """What was found out before may not be true any more."""
        self._age += 1
        self._changed.set()

    async def _look(self) -> float:
        """Explain some of what waits now; how long it took."""
        began, age = self._clock.seconds(), self._age
        self._forget()
        due = [pod for pod in self._due() if self._looked.get(pod.uid, 0) < age]
        due.sort(key=lambda pod: (self._looked.get(pod.uid, 0), queue_order(pod)))
        if len(due) > self._options.most:
            self._changed.set()
        due = due[: self._options.most]
        if due:
            with self._observing.work("explain"):
                answers = await asyncio.to_thread(self._explained, self._objects.values(), {pod.uid for pod in due})
            told = [pod for pod in due if self._tell(pod, answers.get(f"{pod.namespace}/{pod.name}"))]
            self._looked |= {pod.uid: age for pod in due}
            if told:
                log.info("%d of the pods that wait were told why", len(told))
        return self._clock.seconds() - began

    def _due(self) -> Iterator[Item[Any]]:
        """What has waited long enough; whoever has not is looked at later."""
        now, patience = self._clock.seconds(), self._options.patience
        unbroken = max(cache.since for cache in self._objects.caches)
        waiting = [pod for pod in self._pods.items() if _waits(pod)]
        self._seen = {pod.uid: self._seen.get(pod.uid, now) for pod in waiting}
        soonest = inf
        for pod in waiting:
            left = max(self._seen[pod.uid], unbroken) + patience - now
            if left > 0:
                soonest = min(soonest, left, patience)
            else:
                yield pod
        if soonest < inf:
            self._clock.later(soonest, self._changed.set)

    def _explained(self, values: Sequence[Object], due: set[str]) -> dict[str, Answer]:
        """The answers by the name of the pod. Pods that nobody asks about are left out; those that run are not."""
        asked = [value for value in values if not isinstance(value, Pod) or _runs(value) or value.metadata.uid in due]
        answers = explain(asked, self._options.features, self._options.tries).answers
        return {answer.name: answer for answer in answers if answer.kind == "Pod"}

    def _tell(self, pod: Item[Any], answer: Answer | None) -> bool:
        """Whether there was something to tell."""
        if answer is None:
            return False
        said = _condition(pod)
        last = f"{_SAID}{said}" if said else _SILENT
        if answer.reasons is not None:
            note = messages.event_note(messages.diagnosis_lines(answer.name, answer.reasons), last)
        elif said:
            devices = ", ".join(device.device for claim in answer.claims for device in claim.devices)
            note = f"Its claims fit on node {answer.node} now ({devices}). {last}"
        else:
            return False  # it may be placed at any moment, and what it would get is nobody's news
        if self._told.get(pod.uid) == (short := _short(note)):
            return False
        self._told[pod.uid] = short
        tree = {**pod.tree, "apiVersion": "v1", "kind": "Pod"}
        if answer.fits:
            self._recorder.event(tree, "Normal", FITS, note, _ACTION)
        else:
            self._recorder.event(tree, "Warning", WAITS, note, _ACTION)
        log.debug("pod %s/%s: %s", pod.namespace, pod.name, note.partition("\n")[0])
        return True

    def _forget(self) -> None:
        there = {pod.uid for pod in self._pods.items()}
        for known in (self._told, self._looked):
            for uid in known.keys() - there:
                del known[uid]


async def _told_before(client: Client) -> dict[str, tuple[str, bool]]:
    """What a copy of us said last of each pod (uid), as far as the cluster remembers."""
    try:
        listing = await client.list(EVENTS, fields=f"reportingComponent={NAME}")
    except StatusError as error:
        log.warning("earlier events cannot be read, so pods may be told twice: %s", error)
        return {}
    told = sorted(listing.items, key=_last_told)
    return {
        event["involvedObject"].get("uid", ""): _short(event.get("message", "").removeprefix(COMBINED))
        for event in told
    }


def _last_told(event: Tree) -> str:
    """When an event was last told; its time is when it first was."""
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("eventTime") or "")


def _short(note: str) -> tuple[str, bool]:
    """By which a reason counts as another one, and whether the scheduler had spoken: how many devices are in use
    changes all the time.

    >>> _short("2 of 8 devices are free (in-use)\\nThe scheduler says: no")
    ('# of # devices are free (in-use)', True)
    """
    return re.sub(r"[0-9]+", "#", note.partition("\n")[0]), not note.endswith(_SILENT)


def _waits(pod: Item[Any]) -> bool:
    """Whether a pod with claims, or that counts devices as extended resources, is for a scheduler to place."""
    if pod.spec.get("nodeName") or pod.deleting or pod.spec.get("schedulingGates"):
        return False
    return pod.status.get("phase") in (None, "", "Pending") and (
        bool(pod.spec.get("resourceClaims")) or any("/" in name for name in _counted(pod))
    )


def _counted(pod: Item[Any]) -> Iterator[str]:
    for field in ("initContainers", "containers"):
        for container in pod.spec.get(field) or ():
            resources = container.get("resources") or {}
            yield from {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _runs(pod: Pod) -> bool:
    return bool(pod.spec.node_name)


def _condition(pod: Item[Any]) -> str:
    """What its scheduler said last of why it waits."""
    for one in pod.status.get("conditions") or ():
        if one["type"] == "PodScheduled" and one["status"] == "False":
            return " ".join(str(one.get("message", "")).split())
    return ""
