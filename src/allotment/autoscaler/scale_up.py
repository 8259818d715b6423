"""From pods that wait to orders: one plan at a time, beside the event loop, on the cluster as it will be."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from msgspec.structs import replace as with_fields

from allotment.autoscaler.cluster_state import Waiting, wish_of
from allotment.autoscaler.events import Teller, described
from allotment.autoscaler.in_flight_nodes import Coming, with_supply
from allotment.autoscaler.nomination import Promises
from allotment.autoscaler.options import Options, Planner
from allotment.autoscaler.order import Order
from allotment.autoscaler.order_store import Orders
from allotment.autoscaler.provider import NoCapacity, Refused
from allotment.autoscaler.purchase_backoff import Restraint
from allotment.autoscaler.remaining_limits import remaining
from allotment.autoscaler.reservation import unreserved
from allotment.autoscaler.unavailable_offerings import Shortages
from allotment.cluster.cached_item import Item
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.typed_objects import Values
from allotment.model.meta import Object
from allotment.packing.problem import KeepGoing
from allotment.phrases import counted
from allotment.tools.plan.limits import PlanLimits
from allotment.tools.plan.placement.nominations import place_nominated_pods
from allotment.tools.plan.reasons.type_verdicts import with_nearest_types
from allotment.tools.plan.report import PlannedMachine, ProvisioningPlan

T = TypeVar("T")

log = logging.getLogger(__name__)

#: Orders that go out at the same time.
_AT_ONCE = 16


class ScalingUp:
    """Plans and orders. ``coming``: what an order will bring, under which node's name; None if nobody can tell."""

    def __init__(
        self, options: Options, clock: Clock, waiting: Waiting, orders: Orders, promises: Promises,
        shortages: Shortages, restraint: Restraint, teller: Teller, coming: Callable[[Order], Coming | None],
    ) -> None:  # fmt: skip
        self._options = options
        self._planner = planner_of(options)
        self._clock = clock
        self._waiting = waiting
        self._orders = orders
        self._promises = promises
        self._shortages = shortages
        self._restraint = restraint
        self._teller = teller
        self._coming = coming
        self._values = Values(unreserved)
        self.settled: dict[str, float] = {}
        """Pods (uid) for which nothing is to be ordered, and when that was found."""

    def news(self) -> bool:
        """Whether some pod waits that no plan has seen, or not for long."""
        waiting = {pod.uid for pod in self._waiting.waiting()}
        self._promises.keep(waiting)
        self._teller.keep(waiting)
        self.settled = {uid: since for uid, since in self.settled.items() if uid in waiting}
        before = self._clock.seconds() - self._options.retry
        held = self._held()
        return any(
            uid not in self._promises and uid not in held and self.settled.get(uid, before) <= before for uid in waiting
        )

    def _held(self) -> set[str]:
        """Pods (uid) that are in no plan: machines came to nothing for their like, or what comes is in no catalogue."""
        now = self._clock.seconds()
        held: set[str] = set()
        for pod in self._waiting.waiting():
            order = self._orders.get(self._promises.order_of(pod.uid))
            if order is not None:
                if self._coming(order) is None:
                    held.add(pod.uid)
            elif self._restraint.wait(wish := wish_of(pod), now) > 0:
                held.add(pod.uid)
                self._teller.restrained(pod, self._restraint.vain(wish), self._restraint.length(wish))
        return held

    def again(self, uid: str) -> None:
        """A pod asks for something else than when it was planned for."""
        self.settled.pop(uid, None)

    def next(self) -> float | None:
        """When a pod that was not served is to be planned for again."""
        first = min(self.settled.values(), default=None)
        return None if first is None else first + self._options.retry

    async def plan(self) -> ProvisioningPlan:
        """The cheapest machines for all that wait, with what is under way counted."""
        supply = [found for order in self._orders if order.under_way and (found := self._coming(order)) is not None]
        nodes = {order.name: found.node.metadata.name for order in self._orders if (found := self._coming(order))}
        promised = self._promises.nodes(nodes)
        leaving = frozenset(nodes[order.name] for order in self._orders if order.leaving and order.name in nodes)
        limits = remaining(
            replace(
                self._options.limits,
                unavailable=(*self._options.limits.unavailable, *self._shortages.now(self._clock.seconds())),
            ),
            [order.machine for order in self._orders],
        )
        seen = self._waiting.seen(self._held())

        def work(keep_going: KeepGoing) -> ProvisioningPlan:
            values = with_supply(self._values.of(seen), supply, promised, leaving)
            return self._planner(values, limits, keep_going)

        return await beside(work, self._options.plan_seconds)

    async def carry_out(self, plan: ProvisioningPlan) -> bool:
        """Order what a plan says; whether all of it could be had. Where not, the next plan does without it."""
        now = self._clock.seconds()
        pods = {(pod.namespace, pod.name): pod for pod in self._waiting.waiting()}
        by_node = {
            found.node.metadata.name: order.name for order in self._orders if (found := self._coming(order)) is not None
        }
        for seat in plan.existing:
            pod = pods.get((seat.pod.namespace, seat.pod.name))
            if pod is None:
                continue
            order = self._orders.get(by_node.get(seat.node, ""))
            if order is not None and order.under_way:
                self._promises.promise(pod.uid, order.name)
                self._teller.awaited(pod, seat.node)
            else:
                self.settled[pod.uid] = now
                self._teller.unserved(pod, f"there is room on node {seat.node} already")
        for one in plan.unserved:
            pod = pods.get((one.pod.namespace, one.pod.name))
            if pod is not None:
                self.settled[pod.uid] = now
                self._teller.unserved(pod, one.text)
        turns = asyncio.Semaphore(_AT_ONCE)
        self._restraint.begin()
        done = await asyncio.gather(*(self._order(machine, pods, turns) for machine in plan.machines))
        return all(done)

    async def _order(
        self, machine: PlannedMachine, pods: dict[tuple[str, str], Item[Any]], turns: asyncio.Semaphore
    ) -> bool:
        users = [pod for seat in machine.seats if (pod := pods.get((seat.pod.namespace, seat.pod.name))) is not None]
        if not users:  # nobody needs it any more
            return True
        if self._options.dry_run:
            for pod in users:
                self.settled[pod.uid] = self._clock.seconds()
                self._teller.ordered(pod, machine)
            return True
        async with turns:
            order = await self._orders.add(
                machine, self._clock.now(), (node.name for node in self._waiting.nodes.items())
            )
            self._restraint.ordered(order.name, map(wish_of, users))
            for pod in users:
                self._promises.promise(pod.uid, order.name)
            return await self.place(order, users)

    async def place(self, order: Order, users: Sequence[Item[Any]]) -> bool:
        """Have the cloud take an order; False if it does not."""
        offering = offering_of(order.machine)
        try:
            await self._orders.place(order)
        except NoCapacity as error:
            wait = self._shortages.note((error.instance, error.zone, error.capacity_type), self._clock.seconds())
            log.info("%s; not asked for again for %.0f s", error, wait)
            self._lost(order, users, str(error))
            return False
        except Refused as error:
            self._shortages.refused(offering, self._clock.seconds())
            log.warning("%s: refused: %s", described(order.machine), error)
            self._lost(order, users, f"{described(order.machine)} was refused: {error}")
            return False
        except (StatusError, Unreachable) as error:
            # It may have been taken all the same: it is asked for again, under its name.
            log.warning("%s: %s", order.name, error)
            return True
        log.info("ordered %s as %s for %s", described(order.machine), order.name, counted(len(users), "pod"))
        for pod in users:
            self._teller.ordered(pod, order.machine)
        return True

    def _lost(self, order: Order, users: Sequence[Item[Any]], text: str) -> None:
        self._promises.break_off(order.name)
        for pod in users:
            self._teller.failed(pod, text)


def offering_of(machine: PlannedMachine) -> tuple[str, str, str]:
    """Type, zone, capacity type: what can be out of stock."""
    return machine.instance, machine.zone, machine.capacity_type


async def beside(work: Callable[[KeepGoing], T], seconds: float) -> T:
    """Work on a thread, so long at most; told to end when nobody waits for it any more."""
    ends = time.monotonic() + seconds
    stop = threading.Event()
    try:
        return await asyncio.to_thread(work, lambda: not stop.is_set() and time.monotonic() < ends)
    finally:
        stop.set()


def planner_of(options: Options) -> Planner:
    """The one that the options name, or ours."""
    if options.planner is not None:
        return options.planner
    from allotment.tools.plan.planning import plan

    def planner(values: Sequence[Object], limits: PlanLimits, keep_going: KeepGoing, /) -> ProvisioningPlan:
        kept = place_nominated_pods(values, options.features)
        found = plan(
            kept.objects, options.catalog, limits, options.features, keep_going=keep_going,
            seconds=options.plan_seconds, reasons=False,
        )  # fmt: skip
        found = with_nearest_types(found, kept.objects, options.catalog, limits, options.features)
        return with_fields(found, existing=(*kept.placements, *found.existing))

    return planner
