"""The autoscaler as a program: pods that wait become machines, and machines that nobody uses go.

Three tasks beside each other. *Tending* compares orders with the cloud and the cluster; *planning* answers pods that
wait; *disrupting* gives back. What must not be lost is in the cluster before anything is done, so that the program
can end at any moment: the next one, here or elsewhere, goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from allotment.autoscaler.cluster_state import Waiting, wish_of
from allotment.autoscaler.disruption import Disrupting
from allotment.autoscaler.events import Teller
from allotment.autoscaler.nomination import Promises
from allotment.autoscaler.options import NAME, Options
from allotment.autoscaler.order_reconciler import Tending
from allotment.autoscaler.order_store import Orders
from allotment.autoscaler.provider import Absent
from allotment.autoscaler.purchase_backoff import Restraint
from allotment.autoscaler.reporting import Reporter
from allotment.autoscaler.scale_up import ScalingUp
from allotment.autoscaler.unavailable_offerings import Shortages
from allotment.cluster.backoff import Backoff
from allotment.cluster.cached_item import Item
from allotment.cluster.caches import all_synced
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.program import Context, Program
from allotment.phrases import counted
from allotment.tools.plan.report import ProvisioningPlan, UnservedPod


class Batch:
    """What has come since the last plan. ``idle``: seconds without news that end it; ``longest``: in all."""

    def __init__(self, idle: float, longest: float) -> None:
        self._idle = idle
        self._longest = longest
        self._first: float | None = None
        self._last = 0.0

    def add(self, now: float) -> None:
        """Something has come."""
        if self._first is None:
            self._first = now
        self._last = now

    def due(self) -> float | None:
        """When it is complete; None while there is nothing in it."""
        if self._first is None:
            return None
        return min(self._last + self._idle, self._first + self._longest)

    def take(self) -> None:
        """It is being planned for."""
        self._first = None


log = logging.getLogger(__name__)

#: Seconds between two looks at the cloud, at least; and where nothing is done about it.
_BREATH, _DRY = 0.5, 5.0
#: Plans in a row, each without what was out of stock for those before.
_ANSWERS = 10


def autoscaler(options: Options) -> Program:
    """The program."""

    async def run(context: Context) -> None:
        await Autoscaler(context, options).run()

    return run


async def once(context: Context, options: Options) -> ProvisioningPlan:
    """Plan for all that waits now, order it (in a dry run: propose it), and leave the rest to whoever comes later.

    What comes back is what was ordered. Raises Absent, but not in a dry run.
    """
    return await Autoscaler(context, options).once()


class Autoscaler:
    """One autoscaler and all that it knows."""

    def __init__(self, context: Context, options: Options) -> None:
        self._options = options
        self._clock = context.clock
        self._observing = context.observing
        self._random = context.random
        self._client = context.client_for(NAME, NAME)
        self._waiting = Waiting(context, options.features)
        provider = options.provider(context)
        self._orders = Orders(self._client, options.namespace, provider)
        self._promises = Promises()
        self._shortages = Shortages(context.random, options.shortage, options.longest_shortage)
        self._restraint = Restraint(options.vain, options.longest_vain)
        self._teller = Teller(context.recorder(NAME), options.dry_run)
        self._reporter = Reporter(self._client, context.clock, options.namespace, options.dry_run)
        self._batch = Batch(options.idle, options.longest)
        self._planning, self._tending = asyncio.Event(), asyncio.Event()
        self._helped = False
        self._absent = ""
        """Why there is no cloud at all."""
        self._tender = Tending(
            options, context.clock, self._client, provider, self._waiting, self._orders, self._promises,
            self._shortages, self._restraint, self._teller, self._again,
        )  # fmt: skip
        self._up = ScalingUp(
            options, context.clock, self._waiting, self._orders, self._promises, self._shortages, self._restraint,
            self._teller, self._tender.coming,
        )  # fmt: skip
        self._down = Disrupting(
            options, context.clock, self._client, self._waiting, self._orders, self._promises, self._shortages,
            self._restraint, self._teller, self._tender,
        )  # fmt: skip

    async def run(self) -> None:
        """Scale for ever."""
        await self._begin()
        ends: list[Callable[[], None]] = []
        try:
            async with asyncio.TaskGroup() as tasks:
                ends += self._waiting.follow(self._waits, self._placed, self._again, self._moved)
                tasks.create_task(self._tend(), name="tending machines")
                tasks.create_task(self._plan(), name="planning machines")
                if self._options.consolidation != "never":
                    tasks.create_task(self._down.run(), name="disrupting machines")
        finally:
            for end in ends:
                end()

    async def once(self) -> ProvisioningPlan:
        """See the function. Raises Absent."""
        await self._begin()
        await self._look(aloud=self._options.dry_run)
        if self._absent and not self._options.dry_run:
            raise Absent(self._absent)
        plan = await self._answer()
        if self._options.dry_run:
            return plan
        # Some of it may not have been had, and in its place neither.
        promised = {seat.pod for order in self._orders for seat in order.machine.seats}
        had = tuple(one for one in plan.machines if any(seat.pod in promised for seat in one.seats))
        text = "no machine that would serve it was to be had; its events say more"
        left = (seat for one in plan.machines if one not in had for seat in one.seats)
        unserved = (UnservedPod(pod=seat.pod, owner=seat.owner, code="limits", text=text) for seat in left)
        return replace(plan, machines=had, unserved=(*plan.unserved, *unserved))

    async def _begin(self) -> None:
        await all_synced(*self._waiting.caches())
        await self._orders.load()
        if len(self._orders):
            log.info("known from before: %s", counted(len(self._orders), "machine"))
        waiting = {pod.key: pod.uid for pod in self._waiting.waiting()}
        for order in self._orders:
            for seat in order.machine.seats if order.under_way else ():
                if (uid := waiting.get((seat.pod.namespace, seat.pod.name))) is not None:
                    self._promises.promise(uid, order.name)

    def _waits(self, uid: str) -> None:
        self._up.again(uid)
        self._add()

    def _placed(self, pod: Item[Any]) -> None:
        self._restraint.served(wish_of(pod))

    def _again(self) -> None:
        """What could not be served may be now."""
        self._helped = True
        self._add()

    def _add(self) -> None:
        self._batch.add(self._clock.seconds())
        self._planning.set()

    def _moved(self) -> None:
        self._down.look()
        if self._tender.busy:
            self._tending.set()

    async def _tend(self) -> None:
        while True:
            self._tending.clear()
            seconds = await self._look()
            await self._reporter.look(tuple(self._orders))
            alarm = self._clock.later(seconds, self._tending.set)
            await self._tending.wait()
            alarm.cancel()
            await self._clock.sleep(_BREATH)

    async def _look(self, *, aloud: bool = True) -> float:
        """Compare orders with cloud and cluster; a dry run only takes note of what there is."""
        try:
            if not self._options.dry_run:
                seconds = await self._tender.tend(self._up)
                self._absent = ""
                return seconds
            await self._tender.look()
            self._absent = ""
        except (StatusError, Unreachable) as error:
            log.warning("the cloud does not say what it has: %s", error)
        except Absent as error:
            if aloud and self._absent != str(error):
                log.warning("%s", error)
            self._absent = str(error)
        return _DRY

    async def _plan(self) -> None:
        backoff = Backoff(self._random, first=2.0, longest=120.0)
        while True:
            self._planning.clear()
            due = self._due()
            now = self._clock.seconds()
            if due is not None and due <= now:
                self._batch.take()
                if self._helped:
                    self._helped = False
                    self._up.settled.clear()
                if self._up.news():
                    try:
                        await self._answer()
                        backoff.reset()
                    except (StatusError, Unreachable) as error:
                        log.warning("what waits is planned for again: %s", error)
                        self._add()
                        await self._clock.sleep(_BREATH)
                    except Exception:
                        log.exception("what waits could not be planned for")
                        self._add()
                        await self._clock.sleep(backoff.next())
                continue
            alarm = self._clock.later(due - now, self._planning.set) if due is not None else None
            await self._planning.wait()
            if alarm is not None:
                alarm.cancel()

    def _due(self) -> float | None:
        """When to plan: after a batch; when something is in stock again; when it is time to try again."""
        now = self._clock.seconds()
        if self._shortages.ended(now) and self._up.settled:
            self._helped = True
            return now
        if self._restraint.ended(now):
            return now
        times = (self._batch.due(), self._shortages.next(now), self._restraint.next(now), self._up.next())
        return min((one for one in times if one is not None), default=None)

    async def _answer(self) -> ProvisioningPlan:
        for _ in range(_ANSWERS):
            with self._observing.work("plan") as work:
                plan = await self._up.plan()
                work.result = "served" if not plan.unserved else "unserved"
                work.attributes |= {"machines": len(plan.machines), "unserved": len(plan.unserved)}
            if await self._up.carry_out(plan):
                break  # if not, something was out of stock just now: what else would do?
        await self._reporter.planned(plan, tuple(self._orders))
        self._tending.set()
        return plan
