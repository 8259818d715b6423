"""Reconciles orders with the provider, nodes and slices until each machine is ready or released.

A node is cordoned until everything that it was planned with exists, and until other machines in flight are complete if
their pods could take its devices: Kubernetes reserves no devices for nominated pods. Then the pods are nominated, and
the nodes are uncordoned together, first for these pods (`reservation`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from allotment.autoscaler.cluster_state import ObservedCluster, is_daemon, is_finished, requirements_key
from allotment.autoscaler.cordon import PROVISIONING, cordon
from allotment.autoscaler.events import EventReporter, describe_machine
from allotment.autoscaler.in_flight_nodes import InFlightNode, in_flight_node
from allotment.autoscaler.nomination import Nominations, nominate
from allotment.autoscaler.options import AutoscalerOptions
from allotment.autoscaler.order import MachineOrder
from allotment.autoscaler.order_store import OrderStore
from allotment.autoscaler.provider import MachineStatus, Provider
from allotment.autoscaler.purchase_backoff import PurchaseBackoff
from allotment.autoscaler.readiness import is_ready, missing_part
from allotment.autoscaler.reservation import admit, release, reserve
from allotment.autoscaler.scale_up import ScaleUp, offering_of
from allotment.autoscaler.unavailable_offerings import UnavailableOfferings
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.fleet import FleetError

log = logging.getLogger(__name__)

#: Maximum number of concurrent writes.
_MAX_CONCURRENT = 16
#: Seconds between queries to the provider: while machines are in flight, and otherwise.
_ACTIVE_INTERVAL, _IDLE_INTERVAL = 1.0, 15.0
#: Seconds that pods may stay pending after their machine is ready.
_GRACE_PERIOD = 30.0


class OrderReconciler:
    """Reconciles machines from the order to the ready node. ``replan``: called when assigned pods need a new plan."""

    def __init__(
        self,
        options: AutoscalerOptions,
        clock: Clock,
        client: Client,
        provider: Provider,
        cluster: ObservedCluster,
        orders: OrderStore,
        nominations: Nominations,
        offerings: UnavailableOfferings,
        backoff: PurchaseBackoff,
        events: EventReporter,
        replan: Callable[[], None],
    ) -> None:
        self._options = options
        self._clock = clock
        self._client = client
        self._provider = provider
        self._cluster = cluster
        self._orders = orders
        self._nominations = nominations
        self._offerings = offerings
        self._backoff = backoff
        self._events = events
        self._replan = replan
        self._catalog = {instance.key: instance for instance in options.catalog}
        self._machines: dict[str, MachineStatus] = {}
        self._closed: set[str] = set()
        self._ordered: dict[str, float] = {}
        """Order times on the monotonic clock."""
        self._complete: dict[str, float] = {}
        self._ready: dict[str, float] = {}
        self._not_ready_since: dict[str, float] = {}
        self._unscheduled: set[str] = set()
        """Uids of pods without a node."""
        self._in_flight: dict[tuple[str, str], InFlightNode] = {}

    def node_of(self, order: MachineOrder) -> str:
        """Return the name of its node, or of the order while it has none."""
        status = self._machines.get(order.name)
        return (status.node if status is not None else "") or order.name

    def in_flight_node(self, order: MachineOrder) -> InFlightNode | None:
        """Return what an order will provide; None if its type is not in the catalog any more."""
        key = order.name, self.node_of(order)
        found = self._in_flight.get(key)
        if found is None and (instance := self._catalog.get(order.machine.instance)) is not None:
            try:
                found = self._in_flight[key] = in_flight_node(order, instance, key[1], self._options.features.kube)
            except FleetError as error:  # it was ordered with another catalog
                log.warning("%s: %s", order.name, error)
        return found

    async def refresh(self) -> None:
        """Read the provider's machines without acting on them."""
        self._machines = {machine.name: machine for machine in await self._provider.list_machines()}

    async def reconcile(self, scaling_up: ScaleUp) -> float:
        """Reconcile all orders once; return the seconds until the next time."""
        # Orders created during the query are not in its result.
        before = [order for order in self._orders if not self._orders.is_placing(order)]
        await self.refresh()
        complete: list[MachineOrder] = []
        pods = self._cluster.pods.items()
        self._unscheduled = {pod.uid for pod in pods if not pod.spec.get("nodeName") and not pod.deleting}
        for order in before:
            try:
                if (now := self._orders.get(order.name)) is not None and now.confirmed == order.confirmed:
                    if await self._reconcile_order(now, scaling_up):
                        complete.append(now)
            except (StatusError, Unreachable) as error:
                log.warning("%s: %s", order.name, error)
        try:
            await self._open(complete)
        except (StatusError, Unreachable) as error:
            log.warning("cannot uncordon nodes: %s", error)
        known = {order.name for order in self._orders}
        self._closed &= known
        for times in (self._ordered, self._complete, self._ready, self._not_ready_since):
            for name in times.keys() - known:
                del times[name]
        self._in_flight = {key: found for key, found in self._in_flight.items() if key[0] in known}
        self._backoff.keep(known)
        return _ACTIVE_INTERVAL if self.is_busy or len(self._nominations) else _IDLE_INTERVAL

    @property
    def is_busy(self) -> bool:
        """Whether a machine is in flight or being released."""
        return any(order.is_in_flight or order.leaving for order in self._orders)

    async def _reconcile_order(self, order: MachineOrder, scaling_up: ScaleUp) -> bool:
        """Return whether the machine has just become complete and is to be opened."""
        machine = self._machines.get(order.name)
        if machine is not None and not order.confirmed:  # the process that ordered it did not confirm it
            order = await self._orders.confirm(order)
        if order.leaving:
            await self._orders.release(order)
            log.info("%s was released: %s", order.name, order.leaving)
            self._replan()  # the limits allow new orders
        elif machine is None and not order.confirmed:
            if not await scaling_up.place(order, self._users(order)):
                self._replan()
        elif machine is None or machine.state == "failed":
            await self._handle_lost(order, machine)
        elif not order.initialised:
            return await self._check_in_flight(order, machine)
        elif useless := self._unusable_reason(order, machine):
            await self._orders.mark_leaving(order, useless)
            await self._orders.release(order)
            log.warning("%s was released: %s", order.name, useless)
            self._replan()
        elif any(uid in self._unscheduled for uid in self._nominations.pods_of(order.name)):
            since = self._ready.setdefault(order.name, self._clock.seconds())
            if self._clock.seconds() - since > _GRACE_PERIOD:
                # The scheduler does not use the node as it is: the pods are planned again.
                self._record_failure(order)
                self._nominations.cancel(order.name)
                self._replan()
        else:
            self._nominations.cancel(order.name)
            await release(self._client, self._cluster.nodes, machine.node)
        return False

    async def _check_in_flight(self, order: MachineOrder, machine: MachineStatus) -> bool:
        node = self._cluster.nodes.item("", machine.node) if machine.node else None
        if node is not None and order.name not in self._closed:
            self._closed.add(order.name)
            if not node.spec.get("unschedulable") and not self._in_use(node.name):
                await cordon(self._client, self._cluster.nodes, node.name, PROVISIONING, on=True)
        expected = self.in_flight_node(order)
        pools = expected.pools if expected is not None else dict.fromkeys(order.machine.drivers, 1)
        slices = [slice_.tree for slice_ in self._cluster.slices_by_node[machine.node]] if machine.node else []
        missing = missing_part(node.tree if node is not None else None, slices, pools)
        if not missing:
            return True
        now = self._clock.seconds()
        # The wall clock is read only once per order, so that adjusting it does not time out all machines.
        ordered = self._ordered.setdefault(order.name, now + min(self._clock.left(order.ordered), 0))
        if now - ordered >= self._options.registration and not self._in_use(machine.node):
            await self._time_out(order, missing)
        return False

    # --- opening nodes ---------------------------------------------------------------------------------------------

    async def _open(self, complete: Sequence[MachineOrder]) -> None:
        """Open complete nodes, unless other machines whose pods could take their devices will be complete soon."""
        now = self._clock.seconds()
        due = []
        requirements = self._requirements() if complete else {}
        names = {order.name for order in complete}
        others: set[str] = set()
        for order in self._orders:
            if order.is_in_flight and order.name not in names:
                others |= requirements.get(order.name, set())
        for order in complete:
            since = self._complete.setdefault(order.name, now)
            # Pods with the same requirements can use this machine as well as the one in flight.
            apart = others and len(others | requirements.get(order.name, set())) > 1
            if not apart or now - since >= self._options.opening_window:
                due.append(order)
        semaphore = asyncio.Semaphore(_MAX_CONCURRENT)

        async def reserved(order: MachineOrder) -> None:
            async with semaphore:
                assigned = set(self._nominations.pods_of(order.name))
                pods = [pod for pod in self._cluster.unschedulable_pods() if pod.uid in assigned]
                if pods and await admit(self._client, self._cluster.pods, pods, order.name):
                    await reserve(self._client, self._cluster.nodes, self.node_of(order), order.name)

        async def nominated(order: MachineOrder) -> None:
            async with semaphore:
                await nominate(self._client, self._cluster, self._nominations.pods_of(order.name), self.node_of(order))

        async def opened(order: MachineOrder) -> None:
            async with semaphore:
                await cordon(self._client, self._cluster.nodes, self.node_of(order), PROVISIONING, on=False)

        async def noted(order: MachineOrder) -> None:
            async with semaphore:
                await self._orders.mark_initialised(order, self._clock.now())

        # Each step completes for all nodes first: pods must be nominated before other pods can use a node.
        for step in (reserved, nominated, opened, noted):
            await asyncio.gather(*map(step, due))
        for order in due:
            self._offerings.available(offering_of(order.machine))
            if (node := self._cluster.nodes.item("", self.node_of(order))) is not None:
                self._events.ready(node.tree, f"{describe_machine(order.machine)} is ready")
            log.info("%s is ready as node %s", order.name, self.node_of(order))

    def _requirements(self) -> dict[str, set[str]]:
        """Return the requirements of the assigned pods, by order."""
        found: dict[str, set[str]] = {}
        for pod in self._cluster.unschedulable_pods():
            if order_name := self._nominations.order_of(pod.uid):
                found.setdefault(order_name, set()).add(requirements_key(pod))
        return found

    # --- failures -------------------------------------------------------------------------------------------------

    def _unusable_reason(self, order: MachineOrder, machine: MachineStatus) -> str:
        """Return why a machine that was complete must be released: its node is gone, or not ready for long and idle."""
        now = self._clock.seconds()
        node = self._cluster.nodes.item("", machine.node) if machine.node else None
        if node is not None and is_ready(node.tree):
            self._not_ready_since.pop(order.name, None)
            return ""
        since = self._not_ready_since.setdefault(order.name, now)
        if node is None:
            return "its node was deleted" if now - since > _GRACE_PERIOD else ""
        if now - since <= self._options.registration or self._in_use(node.name, leaving=False):
            return ""
        return f"its node has not been ready for {now - since:.0f} s"

    def _record_failure(self, order: MachineOrder) -> None:
        """Record a failed plan for the pods of an order."""
        self._backoff.failed(order.name, map(requirements_key, self._users(order)), self._clock.seconds())

    async def _time_out(self, order: MachineOrder, missing: str) -> None:
        seconds = self._options.registration
        text = f"{describe_machine(order.machine)}: {missing} after {seconds:.0f} s; the machine is released"
        # A machine that fails to start in one zone rarely starts in another, and each try takes as long as this one.
        machine = order.machine
        self._offerings.refused((machine.instance, "", machine.capacity_type), self._clock.seconds())
        self._fail(order, text)
        await self._orders.mark_leaving(order, missing)
        await self._orders.release(order)
        log.warning("%s: %s", order.name, text)

    async def _handle_lost(self, order: MachineOrder, machine: MachineStatus | None) -> None:
        """Handle a machine that failed or was deleted by another client."""
        why = (machine.reason if machine is not None else "") or "the provider no longer has a machine with this name"
        text = f"{describe_machine(order.machine)}: {why}"
        if order.initialised:
            self._nominations.cancel(order.name)
        else:
            self._offerings.unavailable(offering_of(order.machine), self._clock.seconds())
            self._fail(order, text, paid=machine is None or not machine.is_shortage)
        await self._orders.release(order)
        log.warning("%s: %s", order.name, text)
        self._replan()

    def _fail(self, order: MachineOrder, text: str, *, paid: bool = True) -> None:
        """Report a failed machine to its pods and plan again. ``paid``: whether the machine existed."""
        if paid:
            self._record_failure(order)
        for pod in self._users(order):
            self._events.failed(pod, text)
        self._nominations.cancel(order.name)
        self._replan()

    def _users(self, order: MachineOrder) -> Sequence[CachedItem[Any]]:
        nominated = set(self._nominations.pods_of(order.name))
        planned = {(placement.pod.namespace, placement.pod.name) for placement in order.machine.placements}
        return [pod for pod in self._cluster.unschedulable_pods() if pod.uid in nominated or pod.key in planned]

    def _in_use(self, node: str, *, leaving: bool = True) -> bool:
        """Whether pods use a node; ``leaving``: including pods that are being deleted."""
        return bool(node) and any(
            not is_finished(pod) and not is_daemon(pod) and (leaving or not pod.deleting)
            for pod in self._cluster.pods_by_node[node]
        )
