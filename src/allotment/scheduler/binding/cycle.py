"""Pods between the decision and their node: each has its place on the node already, and gives it back if it fails."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.instrumentation import Observing
from allotment.cluster.shutdown import Left
from allotment.node_fit.nodes import Machines
from allotment.node_fit.pod_requirements import Demands
from allotment.scheduler.attempt import Chosen
from allotment.scheduler.binding.binder import Binder
from allotment.scheduler.binding.errors import NotBound
from allotment.scheduler.claim_ledger import Ledger
from allotment.scheduler.cluster_events import Happening
from allotment.scheduler.coexistence.monitor import Watching
from allotment.scheduler.idle_bindings import Resting
from allotment.scheduler.pending_events import News
from allotment.scheduler.pending_pods import Start, Waiting
from allotment.scheduler.pods import WaitingPod, claim_keys

_log = logging.getLogger(__name__)

#: Bindings at a time; more decisions wait until some of them are done.
_MOST: Final = 128


class Carrying:
    """Carries decisions out, many at once. ``assumed``: the pods (by uid) on their way, which others read;
    ``heard`` waits until a pod (uid) has heard what it is being told.
    """

    def __init__(
        self, assumed: dict[str, WaitingPod], binder: Binder, waiting: Waiting, machines: Machines, ledger: Ledger,
        resting: Resting, watching: Watching, pods: Cache[Any], demands: Demands, observing: Observing, news: News,
        start: Start, heard: Callable[[str], Awaitable[None]],
    ) -> None:  # fmt: skip
        self.pods = assumed
        self._binder = binder
        self._waiting = waiting
        self._machines = machines
        self._ledger = ledger
        self._resting = resting
        self._watching = watching
        self._known = pods
        self._demands = demands
        self._observing = observing
        self._news = news
        self._start = start
        self._heard = heard

    @property
    def full(self) -> bool:
        """Whether no more can begin now."""
        return len(self.pods) - self._resting.pods >= _MOST

    def begin(self, pod: WaitingPod, chosen: Chosen) -> None:
        """Book what was decided, and carry it out."""
        self._binder.plan(pod, chosen)
        self._machines.seat(pod.resident, chosen.node)
        self._waiting.chosen(pod)
        self.pods[pod.uid] = pod
        self._start(self._carry_out(pod, chosen), f"bind {pod.key}")

    async def _carry_out(self, pod: WaitingPod, chosen: Chosen) -> None:
        try:
            with self._observing.work("bind", pod.uid) as work:
                work.attributes |= {"pod": str(pod.key), "node": chosen.node}
                try:
                    await self._heard(pod.uid)
                    await self._binder.bind(pod, chosen)
                    work.result = "bound"
                except Left:
                    work.result = "left"  # and on its way it stays, until somebody else takes it up
                    return
        except NotBound as error:
            del self.pods[pod.uid]
            self._back(pod, str(error))
        except Exception as error:  # noqa: BLE001 - one pod's trouble must not end the bindings of all others
            _log.exception("binding pod %s", pod.key)
            self._binder.cancel(pod, chosen)
            del self.pods[pod.uid]
            self._back(pod, f"internal error: {error}")
        else:
            del self.pods[pod.uid]
            self._placed(pod)
        self._news.wake()

    def _placed(self, pod: WaitingPod) -> None:
        self._waiting.forget_claims(pod)
        item = self._known.item(pod.key.namespace, pod.key.name)
        if item is None or item.uid != pod.uid:
            self._leave(pod)  # it was deleted meanwhile
        keys = claim_keys(pod.tree)
        made = self._ledger.extended.get(pod.uid)
        for key in (*keys, made) if made is not None else keys:
            self._watching.look(key)

    def _back(self, pod: WaitingPod, text: str) -> None:
        """A pod could not be bound: it leaves the node that was chosen, and is tried again if it is still there."""
        self._waiting.forget_claims(pod)
        item = self._known.item(pod.key.namespace, pod.key.name)
        if item is not None and item.uid == pod.uid and item.spec.get("nodeName"):
            return  # it is bound, by whomever
        self._machines.unseat(pod.uid)
        self._news.happened(Happening.POD_GONE)
        if item is None or item.uid != pod.uid or item.deleting:
            return
        again = WaitingPod(item.tree, self._demands.of(item.spec))
        again.failures = pod.failures
        self._waiting.failed(again, text)

    def _leave(self, pod: WaitingPod) -> None:
        if self._machines.unseat(pod.uid) is not None:
            self._news.happened(Happening.POD_GONE)
