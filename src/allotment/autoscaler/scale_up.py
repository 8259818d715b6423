"""Orders machines for unschedulable pods: one plan at a time, in a thread, with machines in flight as supply."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from msgspec.structs import replace as with_fields

from allotment.autoscaler.cluster_state import ObservedCluster, requirements_key
from allotment.autoscaler.events import EventReporter, describe_machine
from allotment.autoscaler.in_flight_nodes import InFlightNode, with_in_flight_nodes
from allotment.autoscaler.nomination import Nominations
from allotment.autoscaler.options import AutoscalerOptions, Planner
from allotment.autoscaler.order import MachineOrder
from allotment.autoscaler.order_store import OrderStore
from allotment.autoscaler.provider import NoCapacity, OrderRejected
from allotment.autoscaler.purchase_backoff import PurchaseBackoff
from allotment.autoscaler.remaining_limits import remaining_limits
from allotment.autoscaler.reservation import unreserved
from allotment.autoscaler.unavailable_offerings import UnavailableOfferings
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.typed_objects import Values
from allotment.model.meta import Object
from allotment.packing.problem import KeepGoing
from allotment.phrases import counted
from allotment.planning.limits import PlanLimits
from allotment.planning.placement.nominations import place_nominated_pods
from allotment.planning.reasons.type_verdicts import with_nearest_types
from allotment.planning.report import PlannedMachine, ProvisioningPlan

T = TypeVar("T")

log = logging.getLogger(__name__)

#: Maximum number of concurrent orders.
_MAX_CONCURRENT = 16


class ScaleUp:
    """Plans and orders. ``in_flight_node``: returns what an order will provide, None if unknown."""

    def __init__(
        self,
        options: AutoscalerOptions,
        clock: Clock,
        cluster: ObservedCluster,
        orders: OrderStore,
        nominations: Nominations,
        offerings: UnavailableOfferings,
        backoff: PurchaseBackoff,
        events: EventReporter,
        in_flight_node: Callable[[MachineOrder], InFlightNode | None],
    ) -> None:
        self._options = options
        self._planner = planner_of(options)
        self._clock = clock
        self._cluster = cluster
        self._orders = orders
        self._nominations = nominations
        self._offerings = offerings
        self._backoff = backoff
        self._events = events
        self._in_flight_node = in_flight_node
        self._values = Values(unreserved)
        self.settled: dict[str, float] = {}
        """Pods (uid) for which nothing is to be ordered, and when that was decided."""

    def has_unplanned(self) -> bool:
        """Whether there are unschedulable pods that no recent plan covers."""
        waiting = {pod.uid for pod in self._cluster.unschedulable_pods()}
        self._nominations.keep(waiting)
        self._events.keep(waiting)
        self.settled = {uid: since for uid, since in self.settled.items() if uid in waiting}
        before = self._clock.seconds() - self._options.retry
        held = self._excluded()
        return any(
            uid not in self._nominations and uid not in held and self.settled.get(uid, before) <= before
            for uid in waiting
        )

    def _excluded(self) -> set[str]:
        """Return the uids of pods excluded from plans.

        They are in purchase back-off, or assigned to a machine whose type is not in the catalog.
        """
        now = self._clock.seconds()
        held: set[str] = set()
        for pod in self._cluster.unschedulable_pods():
            order = self._orders.get(self._nominations.order_of(pod.uid))
            if order is not None:
                if self._in_flight_node(order) is None:
                    held.add(pod.uid)
            elif self._backoff.remaining(requirement := requirements_key(pod), now) > 0:
                held.add(pod.uid)
                self._events.backed_off(pod, self._backoff.failures(requirement), self._backoff.duration(requirement))
        return held

    def invalidate(self, uid: str) -> None:
        """Plan a pod again, because its requirements changed."""
        self.settled.pop(uid, None)

    def next(self) -> float | None:
        """Return when an unserved pod is to be planned again."""
        first = min(self.settled.values(), default=None)
        return None if first is None else first + self._options.retry

    async def plan(self) -> ProvisioningPlan:
        """Return the cheapest machines for all unschedulable pods, with machines in flight as supply."""
        supply = [
            found for order in self._orders if order.is_in_flight and (found := self._in_flight_node(order)) is not None
        ]
        nodes = {
            order.name: found.node.metadata.name for order in self._orders if (found := self._in_flight_node(order))
        }
        nominated = self._nominations.nodes_by_pod(nodes)
        leaving = frozenset(nodes[order.name] for order in self._orders if order.leaving and order.name in nodes)
        limits = remaining_limits(
            replace(
                self._options.limits,
                unavailable=(*self._options.limits.unavailable, *self._offerings.current(self._clock.seconds())),
            ),
            [order.machine for order in self._orders],
        )
        inputs = self._cluster.plan_inputs(self._excluded())

        def work(keep_going: KeepGoing) -> ProvisioningPlan:
            values = with_in_flight_nodes(self._values.of(inputs), supply, nominated, leaving)
            return self._planner(values, limits, keep_going)

        return await run_in_thread(work, self._options.plan_seconds)

    async def execute(self, plan: ProvisioningPlan) -> bool:
        """Order the machines of a plan; return whether all were available. If not, the next plan avoids them."""
        now = self._clock.seconds()
        pods = {(pod.namespace, pod.name): pod for pod in self._cluster.unschedulable_pods()}
        by_node = {
            found.node.metadata.name: order.name
            for order in self._orders
            if (found := self._in_flight_node(order)) is not None
        }
        for placement in plan.existing:
            pod = pods.get((placement.pod.namespace, placement.pod.name))
            if pod is None:
                continue
            order = self._orders.get(by_node.get(placement.node, ""))
            if order is not None and order.is_in_flight:
                self._nominations.assign(pod.uid, order.name)
                self._events.awaited(pod, placement.node)
            else:
                self.settled[pod.uid] = now
                self._events.unserved(pod, f"node {placement.node} already has capacity for it")
        for unserved in plan.unserved:
            pod = pods.get((unserved.pod.namespace, unserved.pod.name))
            if pod is not None:
                self.settled[pod.uid] = now
                self._events.unserved(pod, unserved.text)
        semaphore = asyncio.Semaphore(_MAX_CONCURRENT)
        self._backoff.start_plan()
        done = await asyncio.gather(*(self._order(machine, pods, semaphore) for machine in plan.machines))
        return all(done)

    async def _order(
        self, machine: PlannedMachine, pods: dict[tuple[str, str], CachedItem[Any]], semaphore: asyncio.Semaphore
    ) -> bool:
        keys = [(placement.pod.namespace, placement.pod.name) for placement in machine.placements]
        users = [pods[key] for key in keys if key in pods]
        if not users:  # no pod needs it any more
            return True
        if self._options.dry_run:
            for pod in users:
                self.settled[pod.uid] = self._clock.seconds()
                self._events.ordered(pod, machine)
            return True
        async with semaphore:
            order = await self._orders.add(
                machine, self._clock.now(), (node.name for node in self._cluster.nodes.items())
            )
            self._backoff.ordered(order.name, map(requirements_key, users))
            for pod in users:
                self._nominations.assign(pod.uid, order.name)
            return await self.place(order, users)

    async def place(self, order: MachineOrder, users: Sequence[CachedItem[Any]]) -> bool:
        """Place an order with the provider; return False if it was not accepted."""
        offering = offering_of(order.machine)
        try:
            await self._orders.place(order)
        except NoCapacity as error:
            wait = self._offerings.unavailable((error.instance, error.zone, error.capacity_type), self._clock.seconds())
            log.info("%s; not requested again for %.0f s", error, wait)
            self._lost(order, users, str(error))
            return False
        except OrderRejected as error:
            self._offerings.refused(offering, self._clock.seconds())
            log.warning("%s: the order was rejected: %s", describe_machine(order.machine), error)
            self._lost(order, users, f"{describe_machine(order.machine)} was rejected: {error}")
            return False
        except (StatusError, Unreachable) as error:
            # It may have been accepted nevertheless: it is repeated under the same name.
            log.warning("%s: %s", order.name, error)
            return True
        log.info("ordered %s as %s for %s", describe_machine(order.machine), order.name, counted(len(users), "pod"))
        for pod in users:
            self._events.ordered(pod, order.machine)
        return True

    def _lost(self, order: MachineOrder, users: Sequence[CachedItem[Any]], text: str) -> None:
        self._nominations.cancel(order.name)
        for pod in users:
            self._events.failed(pod, text)


def offering_of(machine: PlannedMachine) -> tuple[str, str, str]:
    """Return type, zone and capacity type: the unit of availability."""
    return machine.instance, machine.zone, machine.capacity_type


async def run_in_thread(work: Callable[[KeepGoing], T], seconds: float) -> T:
    """Run work in a thread with a time limit; it ends early when the caller is cancelled."""
    ends = time.monotonic() + seconds
    stop = threading.Event()
    try:
        return await asyncio.to_thread(work, lambda: not stop.is_set() and time.monotonic() < ends)
    finally:
        stop.set()


def planner_of(options: AutoscalerOptions) -> Planner:
    """Return the planner of the options, or the default one."""
    if options.planner is not None:
        return options.planner
    from allotment.planning.planner import plan

    def planner(values: Sequence[Object], limits: PlanLimits, keep_going: KeepGoing, /) -> ProvisioningPlan:
        kept = place_nominated_pods(values, options.features)
        found = plan(kept.objects, options.catalog, limits, options.features, keep_going=keep_going, reasons=False)
        found = with_nearest_types(found, kept.objects, options.catalog, limits, options.features)
        return with_fields(found, existing=(*kept.placements, *found.existing))

    return planner
