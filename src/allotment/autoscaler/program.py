"""The autoscaler as a program: machines are provisioned for pending pods, and idle machines are removed.

Three concurrent tasks: the *reconciler* compares orders with provider and cluster; *planning* serves pending pods;
*disruption* removes nodes. Everything essential is stored in the cluster before it is acted on, so that the program can
end at any moment and another process continues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from allotment.autoscaler.cluster_state import ObservedCluster, requirements_key
from allotment.autoscaler.disruption import DisruptionController
from allotment.autoscaler.events import EventReporter
from allotment.autoscaler.nomination import Nominations
from allotment.autoscaler.options import NAME, AutoscalerOptions
from allotment.autoscaler.order_reconciler import OrderReconciler
from allotment.autoscaler.order_store import OrderStore
from allotment.autoscaler.provider import ProviderUnavailable
from allotment.autoscaler.purchase_backoff import PurchaseBackoff
from allotment.autoscaler.reporting import PlanReporter
from allotment.autoscaler.scale_up import ScaleUp
from allotment.autoscaler.unavailable_offerings import UnavailableOfferings
from allotment.cluster.backoff import Backoff
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.caches import all_synced
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.program import Program, ProgramContext
from allotment.phrases import counted
from allotment.planning.report import ProvisioningPlan, UnservedPod


class Batch:
    """The events since the last plan. ``idle``: seconds without events that end it; ``longest``: maximum duration."""

    def __init__(self, idle: float, longest: float) -> None:
        self._idle = idle
        self._longest = longest
        self._first: float | None = None
        self._last = 0.0

    def add(self, now: float) -> None:
        """Add an event."""
        if self._first is None:
            self._first = now
        self._last = now

    def due(self) -> float | None:
        """Return when it ends; None if it is empty."""
        if self._first is None:
            return None
        return min(self._last + self._idle, self._first + self._longest)

    def take(self) -> None:
        """Clear it when its plan starts."""
        self._first = None


log = logging.getLogger(__name__)

#: Minimum seconds between two reconciliations; seconds between them in a dry run.
_MIN_INTERVAL, _DRY_RUN_INTERVAL = 0.5, 5.0
#: Maximum number of consecutive plans, each without the offerings that were unavailable before.
_MAX_PLANS = 10


def autoscaler(options: AutoscalerOptions) -> Program:
    """Return the program."""

    async def run(context: ProgramContext) -> None:
        await Autoscaler(context, options).run()

    return run


async def once(context: ProgramContext, options: AutoscalerOptions) -> ProvisioningPlan:
    """Plan once for all pending pods and order the machines (in a dry run: propose them).

    Returns the plan with the machines that were ordered. Raises ProviderUnavailable, except in a dry run.
    """
    return await Autoscaler(context, options).once()


class Autoscaler:
    """One autoscaler: its components and its loops."""

    def __init__(self, context: ProgramContext, options: AutoscalerOptions) -> None:
        self._options = options
        self._clock = context.clock
        self._observing = context.observing
        self._random = context.random
        self._client = context.client_for(NAME, NAME)
        self._cluster = ObservedCluster(context, options.features)
        provider = options.provider(context)
        self._orders = OrderStore(self._client, options.namespace, provider)
        self._nominations = Nominations()
        self._offerings = UnavailableOfferings(context.random, options.shortage_backoff, options.max_shortage_backoff)
        self._backoff = PurchaseBackoff(options.purchase_backoff, options.max_purchase_backoff)
        self._events = EventReporter(context.recorder(NAME), context.clock, options.dry_run)
        self._reporter = PlanReporter(self._client, context.clock, options.namespace, options.dry_run)
        self._batch = Batch(options.batch_idle, options.batch_max)
        self._plan_due, self._reconcile_due = asyncio.Event(), asyncio.Event()
        self._retry_all = False
        self._unavailable = ""
        """The reason why the provider is unavailable; empty if it is available."""
        self._reconciler = OrderReconciler(
            options, context.clock, self._client, provider, self._cluster, self._orders, self._nominations,
            self._offerings, self._backoff, self._events, self._retry,
        )  # fmt: skip
        self._scale_up = ScaleUp(
            options, context.clock, self._cluster, self._orders, self._nominations, self._offerings, self._backoff,
            self._events, self._reconciler.in_flight_node,
        )  # fmt: skip
        self._disruption = DisruptionController(
            options, context.clock, self._client, self._cluster, self._orders, self._nominations, self._offerings,
            self._backoff, self._events, self._reconciler,
        )  # fmt: skip

    async def run(self) -> None:
        """Run until cancelled."""
        await self._start()
        ends: list[Callable[[], None]] = []
        try:
            async with asyncio.TaskGroup() as tasks:
                ends += self._cluster.subscribe(
                    self._pod_unschedulable, self._placed, self._retry, self._cluster_changed
                )
                tasks.create_task(self._reconcile_loop(), name="reconciling orders")
                tasks.create_task(self._plan_loop(), name="planning machines")
                if self._options.consolidation != "never":
                    tasks.create_task(self._disruption.run(), name="disrupting machines")
        finally:
            self._events.close()
            for end in ends:
                end()

    async def once(self) -> ProvisioningPlan:
        """Plan once. Raises ProviderUnavailable."""
        await self._start()
        await self._reconcile(log_unavailable=self._options.dry_run)
        if self._unavailable and not self._options.dry_run:
            raise ProviderUnavailable(self._unavailable)
        plan = await self._plan_and_order()
        if self._options.dry_run:
            return plan
        # Some machines may have been unavailable, and their alternatives as well.
        assigned = {placement.pod for order in self._orders for placement in order.machine.placements}
        ordered = tuple(
            machine for machine in plan.machines if any(each.pod in assigned for each in machine.placements)
        )
        text = "no suitable machine was available; see the events of the pod"
        left = (each for machine in plan.machines if machine not in ordered for each in machine.placements)
        unserved = (UnservedPod(pod=each.pod, owner=each.owner, code="limits", text=text) for each in left)
        return replace(plan, machines=ordered, unserved=(*plan.unserved, *unserved))

    async def _start(self) -> None:
        await all_synced(*self._cluster.caches())
        await self._orders.load()
        if len(self._orders):
            log.info("continuing with %s from an earlier run", counted(len(self._orders), "machine"))
        waiting = {pod.key: pod.uid for pod in self._cluster.unschedulable_pods()}
        for order in self._orders:
            for placement in order.machine.placements if order.is_in_flight else ():
                if (uid := waiting.get((placement.pod.namespace, placement.pod.name))) is not None:
                    self._nominations.assign(uid, order.name)

    def _pod_unschedulable(self, uid: str) -> None:
        self._scale_up.invalidate(uid)
        self._add()

    def _placed(self, pod: CachedItem[Any]) -> None:
        if self._backoff.served(requirements_key(pod)):
            self._add()

    def _retry(self) -> None:
        """Plan again for unserved pods."""
        self._retry_all = True
        self._add()

    def _add(self) -> None:
        self._batch.add(self._clock.seconds())
        self._plan_due.set()

    def _cluster_changed(self) -> None:
        self._disruption.notify()
        if self._reconciler.is_busy:
            self._reconcile_due.set()

    async def _reconcile_loop(self) -> None:
        while True:
            self._reconcile_due.clear()
            seconds = await self._reconcile()
            await self._reporter.update(tuple(self._orders))
            alarm = self._clock.later(seconds, self._reconcile_due.set)
            await self._reconcile_due.wait()
            alarm.cancel()
            await self._clock.sleep(_MIN_INTERVAL)

    async def _reconcile(self, *, log_unavailable: bool = True) -> float:
        """Reconcile orders with provider and cluster; in a dry run only read."""
        try:
            if not self._options.dry_run:
                seconds = await self._reconciler.reconcile(self._scale_up)
                self._unavailable = ""
                return seconds
            await self._reconciler.refresh()
            self._unavailable = ""
        except (StatusError, Unreachable) as error:
            log.warning("cannot list the provider's machines: %s", error)
        except ProviderUnavailable as error:
            if log_unavailable and self._unavailable != str(error):
                log.warning("%s", error)
            self._unavailable = str(error)
        return _DRY_RUN_INTERVAL

    async def _plan_loop(self) -> None:
        backoff = Backoff(self._random, first=2.0, longest=120.0)
        while True:
            self._plan_due.clear()
            due = self._due()
            now = self._clock.seconds()
            if due is not None and due <= now:
                self._batch.take()
                if self._retry_all:
                    self._retry_all = False
                    self._scale_up.settled.clear()
                if self._scale_up.has_unplanned():
                    try:
                        await self._plan_and_order()
                        backoff.reset()
                    except (StatusError, Unreachable) as error:
                        log.warning("planning will be retried: %s", error)
                        self._add()
                        await self._clock.sleep(_MIN_INTERVAL)
                    except Exception:
                        log.exception("planning failed")
                        self._add()
                        await self._clock.sleep(backoff.next())
                continue
            alarm = self._clock.later(due - now, self._plan_due.set) if due is not None else None
            await self._plan_due.wait()
            if alarm is not None:
                alarm.cancel()

    def _due(self) -> float | None:
        """Return when to plan: after a batch, when an offering may be available again, or at the next retry."""
        now = self._clock.seconds()
        if self._offerings.ended(now) and self._scale_up.settled:
            self._retry_all = True
            return now
        if self._backoff.ended(now):
            return now
        times = (self._batch.due(), self._offerings.next(now), self._backoff.next(now), self._scale_up.next())
        return min((due_time for due_time in times if due_time is not None), default=None)

    async def _plan_and_order(self) -> ProvisioningPlan:
        for _ in range(_MAX_PLANS):
            with self._observing.work("plan") as work:
                plan = await self._scale_up.plan()
                work.result = "served" if not plan.unserved else "unserved"
                work.attributes |= {"machines": len(plan.machines), "unserved": len(plan.unserved)}
            if await self._scale_up.execute(plan):
                break  # otherwise an offering was unavailable: plan again without it
        await self._reporter.planned(plan, tuple(self._orders))
        self._reconcile_due.set()
        return plan
