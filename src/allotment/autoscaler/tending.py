"""What is ordered, until it is of use or gone: cloud, node and slices compared with the orders, again and again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from allotment.autoscaler.nominating import Promises, nominate
from allotment.autoscaler.options import Options
from allotment.autoscaler.order import Order
from allotment.autoscaler.orders import Orders
from allotment.autoscaler.provider import Provider, Standing
from allotment.autoscaler.readiness import lacks
from allotment.autoscaler.scaling_up import ScalingUp, offering_of
from allotment.autoscaler.shortages import Shortages
from allotment.autoscaler.supply import Coming, coming
from allotment.autoscaler.telling import Teller, described
from allotment.autoscaler.waiting import Waiting, is_daemon, is_finished
from allotment.cluster.cache import Item
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.fleet import FleetError

log = logging.getLogger(__name__)

#: How often a cloud is asked what it has: while something is to come, and otherwise.
_SOON, _LATER = 1.0, 15.0
#: Seconds that pods may wait on after their machine is ready.
_PATIENCE = 30.0


class Tending:
    """Machines from the order to the ready node. ``replan``: what was promised will not come."""

    def __init__(
        self, options: Options, clock: Clock, client: Client, provider: Provider, waiting: Waiting, orders: Orders,
        promises: Promises, shortages: Shortages, teller: Teller, replan: Callable[[], None],
    ) -> None:  # fmt: skip
        self._options = options
        self._clock = clock
        self._client = client
        self._provider = provider
        self._waiting = waiting
        self._orders = orders
        self._promises = promises
        self._shortages = shortages
        self._teller = teller
        self._replan = replan
        self._catalog = {instance.key: instance for instance in options.catalog}
        self._standing: dict[str, Standing] = {}
        self._nominated: set[str] = set()
        self._ready: dict[str, float] = {}
        self._coming: dict[tuple[str, str], Coming] = {}

    def node_of(self, order: Order) -> str:
        """The name of its node; that of the order while it has none."""
        standing = self._standing.get(order.name)
        return (standing.node if standing is not None else "") or order.name

    def coming(self, order: Order) -> Coming | None:
        """What an order brings; None where its type is in no catalogue any more."""
        key = order.name, self.node_of(order)
        found = self._coming.get(key)
        if found is None and (instance := self._catalog.get(order.machine.instance)) is not None:
            try:
                found = self._coming[key] = coming(order, instance, key[1], self._options.features.kube)
            except FleetError as error:  # the catalogue is another one than that which it was ordered by
                log.warning("%s: %s", order.name, error)
        return found

    async def look(self) -> None:
        """See what the cloud has, and do nothing about it."""
        self._standing = {one.name: one for one in await self._provider.standing()}

    async def tend(self, scaling_up: ScalingUp) -> float:
        """Look at everything once; seconds until the next time, should nothing happen before."""
        # What is ordered while the cloud is being asked is not in its answer.
        before = [order for order in self._orders if not self._orders.is_placing(order)]
        await self.look()
        for order in before:
            try:
                if (now := self._orders.get(order.name)) is not None and now.confirmed == order.confirmed:
                    await self._one(now, scaling_up)
            except (StatusError, Unreachable) as error:
                log.warning("%s: %s", order.name, error)
        known = {order.name for order in self._orders}
        self._nominated &= known
        self._ready = {name: since for name, since in self._ready.items() if name in known}
        self._coming = {key: found for key, found in self._coming.items() if key[0] in known}
        return _SOON if self.busy or len(self._promises) else _LATER

    @property
    def busy(self) -> bool:
        """Whether some machine is on its way, here or away."""
        return any(order.under_way or order.leaving for order in self._orders)

    async def _one(self, order: Order, scaling_up: ScalingUp) -> None:
        standing = self._standing.get(order.name)
        if standing is not None and not order.confirmed:  # whoever ordered it has not come to write that down
            order = await self._orders.confirm(order)
        if order.leaving:
            await self._orders.give_back(order)
            log.info("%s was given back: %s", order.name, order.leaving)
            self._replan()  # what is limited may be bought again
        elif standing is None and not order.confirmed:
            if not await scaling_up.place(order, self._users(order)):
                self._replan()
        elif standing is None or standing.state == "failed":
            await self._gone(order, standing)
        elif not order.initialised:
            await self._awaited(order, standing)
        elif self._promises.to(order.name):
            since = self._ready.setdefault(order.name, self._clock.seconds())
            if self._clock.seconds() - since > _PATIENCE:
                # The scheduler does not take it as it is: what waits is planned for anew.
                self._promises.break_off(order.name)
                self._replan()

    async def _awaited(self, order: Order, standing: Standing) -> None:
        node = self._waiting.nodes.item("", standing.node) if standing.node else None
        if node is not None and order.name not in self._nominated:
            self._nominated.add(order.name)
            await nominate(self._client, self._waiting, self._promises.to(order.name), node.name)
        expected = self.coming(order)
        pools = expected.pools if expected is not None else dict.fromkeys(order.machine.drivers, 1)
        slices = [one.tree for one in self._waiting.slices_of[standing.node]] if standing.node else []
        missing = lacks(node.tree if node is not None else None, slices, pools)
        if not missing and node is not None:
            self._shortages.had(offering_of(order.machine))
            await nominate(self._client, self._waiting, self._promises.to(order.name), node.name)
            await self._orders.initialised(order, self._clock.now())
            self._teller.ready(node.tree, f"{described(order.machine)} has all that it was planned with")
            log.info("%s is ready as node %s", order.name, node.name)
        elif self._clock.left(order.ordered, self._options.registration) <= 0 and not self._in_use(standing.node):
            await self._too_late(order, missing)

    async def _too_late(self, order: Order, missing: str) -> None:
        text = f"{described(order.machine)}: {missing} after {self._options.registration:.0f} s; it is given back"
        # What does not come up in one zone will hardly do so in the next, and each try takes as long as this one.
        machine = order.machine
        self._shortages.refused((machine.instance, "", machine.capacity_type), self._clock.seconds())
        self._lost(order, text)
        await self._orders.leave(order, missing)
        await self._orders.give_back(order)
        log.warning("%s: %s", order.name, text)

    async def _gone(self, order: Order, standing: Standing | None) -> None:
        """It will not come, or somebody else has ended it."""
        why = (standing.reason if standing is not None else "") or "the cloud has no machine of that name any more"
        text = f"{described(order.machine)}: {why}"
        if order.initialised:
            self._promises.break_off(order.name)
        else:
            self._shortages.note(offering_of(order.machine), self._clock.seconds())
            self._lost(order, text)
        await self._orders.give_back(order)
        log.warning("%s: %s", order.name, text)
        self._replan()

    def _lost(self, order: Order, text: str) -> None:
        """What was promised does not come: others are asked for."""
        for pod in self._users(order):
            self._teller.failed(pod, text)
        self._promises.break_off(order.name)
        self._replan()

    def _users(self, order: Order) -> Sequence[Item[Any]]:
        promised = set(self._promises.to(order.name))
        seats = {(seat.pod.namespace, seat.pod.name) for seat in order.machine.seats}
        return [pod for pod in self._waiting.waiting() if pod.uid in promised or pod.key in seats]

    def _in_use(self, node: str) -> bool:
        return bool(node) and any(not is_finished(pod) and not is_daemon(pod) for pod in self._waiting.on_node[node])
