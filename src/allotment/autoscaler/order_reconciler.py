"""What is ordered, until it is of use or gone: cloud, node and slices compared with the orders, again and again.

A node of ours is closed (cordoned) until all that it was planned with is there, and until the others that are under way
are so, too, if pods of theirs could take its devices: Kubernetes keeps no device for a pod that is nominated. Then the
pods hear where they were meant to go, and the nodes open together, for those pods first (``reserving``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from allotment.autoscaler.cluster_state import Waiting, is_daemon, is_finished, wish_of
from allotment.autoscaler.cordon import COMING, cordon
from allotment.autoscaler.events import Teller, described
from allotment.autoscaler.in_flight_nodes import Coming, coming
from allotment.autoscaler.nomination import Promises, nominate
from allotment.autoscaler.options import Options
from allotment.autoscaler.order import Order
from allotment.autoscaler.order_store import Orders
from allotment.autoscaler.provider import Provider, Standing
from allotment.autoscaler.purchase_backoff import Restraint
from allotment.autoscaler.readiness import is_ready, lacks
from allotment.autoscaler.reservation import admit, release, reserve
from allotment.autoscaler.scale_up import ScalingUp, offering_of
from allotment.autoscaler.unavailable_offerings import Shortages
from allotment.cluster.cached_item import Item
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.fleet import FleetError

log = logging.getLogger(__name__)

#: Writes that go out at the same time.
_AT_ONCE = 16
#: How often a cloud is asked what it has: while something is to come, and otherwise.
_SOON, _LATER = 1.0, 15.0
#: Seconds that pods may wait on after their machine is ready.
_PATIENCE = 30.0


class Tending:
    """Machines from the order to the ready node. ``replan``: what was promised will not come."""

    def __init__(
        self, options: Options, clock: Clock, client: Client, provider: Provider, waiting: Waiting, orders: Orders,
        promises: Promises, shortages: Shortages, restraint: Restraint, teller: Teller, replan: Callable[[], None],
    ) -> None:  # fmt: skip
        self._options = options
        self._clock = clock
        self._client = client
        self._provider = provider
        self._waiting = waiting
        self._orders = orders
        self._promises = promises
        self._shortages = shortages
        self._restraint = restraint
        self._teller = teller
        self._replan = replan
        self._catalog = {instance.key: instance for instance in options.catalog}
        self._standing: dict[str, Standing] = {}
        self._closed: set[str] = set()
        self._ordered: dict[str, float] = {}
        """When an order was made, on the scale that never jumps."""
        self._complete: dict[str, float] = {}
        self._ready: dict[str, float] = {}
        self._lame: dict[str, float] = {}
        self._placeless: set[str] = set()
        """Pods (uid) without a node."""
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
        complete: list[Order] = []
        pods = self._waiting.pods.items()
        self._placeless = {pod.uid for pod in pods if not pod.spec.get("nodeName") and not pod.deleting}
        for order in before:
            try:
                if (now := self._orders.get(order.name)) is not None and now.confirmed == order.confirmed:
                    if await self._one(now, scaling_up):
                        complete.append(now)
            except (StatusError, Unreachable) as error:
                log.warning("%s: %s", order.name, error)
        try:
            await self._open(complete)
        except (StatusError, Unreachable) as error:
            log.warning("nodes cannot be opened: %s", error)
        known = {order.name for order in self._orders}
        self._closed &= known
        for times in (self._ordered, self._complete, self._ready, self._lame):
            for name in times.keys() - known:
                del times[name]
        self._coming = {key: found for key, found in self._coming.items() if key[0] in known}
        self._restraint.keep(known)
        return _SOON if self.busy or len(self._promises) else _LATER

    @property
    def busy(self) -> bool:
        """Whether some machine is on its way, here or away."""
        return any(order.under_way or order.leaving for order in self._orders)

    async def _one(self, order: Order, scaling_up: ScalingUp) -> bool:
        """Whether it has just become complete, and is to be opened."""
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
            return await self._awaited(order, standing)
        elif useless := self._of_no_use(order, standing):
            await self._orders.leave(order, useless)
            await self._orders.give_back(order)
            log.warning("%s was given back: %s", order.name, useless)
            self._replan()
        elif any(uid in self._placeless for uid in self._promises.to(order.name)):
            since = self._ready.setdefault(order.name, self._clock.seconds())
            if self._clock.seconds() - since > _PATIENCE:
                # The scheduler does not take it as it is: what waits is planned for anew.
                self._in_vain(order)
                self._promises.break_off(order.name)
                self._replan()
        else:
            self._promises.break_off(order.name)
            await release(self._client, self._waiting.nodes, standing.node)
        return False

    async def _awaited(self, order: Order, standing: Standing) -> bool:
        node = self._waiting.nodes.item("", standing.node) if standing.node else None
        if node is not None and order.name not in self._closed:
            self._closed.add(order.name)
            if not node.spec.get("unschedulable") and not self._in_use(node.name):
                await cordon(self._client, self._waiting.nodes, node.name, COMING, on=True)
        expected = self.coming(order)
        pools = expected.pools if expected is not None else dict.fromkeys(order.machine.drivers, 1)
        slices = [one.tree for one in self._waiting.slices_of[standing.node]] if standing.node else []
        missing = lacks(node.tree if node is not None else None, slices, pools)
        if not missing:
            return True
        now = self._clock.seconds()
        # A clock that is set must not make all machines late at once: how old an order is, the wall says only once.
        ordered = self._ordered.setdefault(order.name, now + min(self._clock.left(order.ordered), 0))
        if now - ordered >= self._options.registration and not self._in_use(standing.node):
            await self._too_late(order, missing)
        return False

    # --- opening nodes ---------------------------------------------------------------------------------------------

    async def _open(self, complete: Sequence[Order]) -> None:
        """Nodes that are complete take pods, unless others come soon whose pods could be in the way."""
        now = self._clock.seconds()
        due = []
        wishes = self._wishes() if complete else {}
        names = {order.name for order in complete}
        others: set[str] = set()
        for order in self._orders:
            if order.under_way and order.name not in names:
                others |= wishes.get(order.name, set())
        for order in complete:
            since = self._complete.setdefault(order.name, now)
            # Whoever asks for the same may as well have this machine as the one that is to come.
            apart = others and len(others | wishes.get(order.name, set())) > 1
            if not apart or now - since >= self._options.together:
                due.append(order)
        turns = asyncio.Semaphore(_AT_ONCE)

        async def reserved(order: Order) -> None:
            async with turns:
                promised = set(self._promises.to(order.name))
                pods = [pod for pod in self._waiting.waiting() if pod.uid in promised]
                if pods and await admit(self._client, self._waiting.pods, pods, order.name):
                    await reserve(self._client, self._waiting.nodes, self.node_of(order), order.name)

        async def nominated(order: Order) -> None:
            async with turns:
                await nominate(self._client, self._waiting, self._promises.to(order.name), self.node_of(order))

        async def opened(order: Order) -> None:
            async with turns:
                await cordon(self._client, self._waiting.nodes, self.node_of(order), COMING, on=False)

        async def noted(order: Order) -> None:
            async with turns:
                await self._orders.initialised(order, self._clock.now())

        # All of one before any of the next: a pod must know its node before others may look at it.
        for step in (reserved, nominated, opened, noted):
            await asyncio.gather(*map(step, due))
        for order in due:
            self._shortages.had(offering_of(order.machine))
            if (node := self._waiting.nodes.item("", self.node_of(order))) is not None:
                self._teller.ready(node.tree, f"{described(order.machine)} has all that it was planned with")
            log.info("%s is ready as node %s", order.name, self.node_of(order))

    def _wishes(self) -> dict[str, set[str]]:
        """What those ask for who wait for a machine, by order."""
        found: dict[str, set[str]] = {}
        for pod in self._waiting.waiting():
            if promised := self._promises.order_of(pod.uid):
                found.setdefault(promised, set()).add(wish_of(pod))
        return found

    # --- what comes to nothing -------------------------------------------------------------------------------------

    def _of_no_use(self, order: Order, standing: Standing) -> str:
        """Why a machine that was complete once must go: its node is gone, or was not ready for long and is empty."""
        now = self._clock.seconds()
        node = self._waiting.nodes.item("", standing.node) if standing.node else None
        if node is not None and is_ready(node.tree):
            self._lame.pop(order.name, None)
            return ""
        since = self._lame.setdefault(order.name, now)
        if node is None:
            return "its node is gone" if now - since > _PATIENCE else ""
        if now - since <= self._options.registration or self._in_use(node.name, leaving=False):
            return ""
        return f"its node has not been ready for {now - since:.0f} s"

    def _in_vain(self, order: Order) -> None:
        """Those who wait for it ask for machines in vain."""
        self._restraint.note(order.name, map(wish_of, self._users(order)), self._clock.seconds())

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
            self._lost(order, text, paid=standing is None or not standing.short)
        await self._orders.give_back(order)
        log.warning("%s: %s", order.name, text)
        self._replan()

    def _lost(self, order: Order, text: str, *, paid: bool = True) -> None:
        """What was promised does not come: others are asked for. ``paid``: there was a machine."""
        if paid:
            self._in_vain(order)
        for pod in self._users(order):
            self._teller.failed(pod, text)
        self._promises.break_off(order.name)
        self._replan()

    def _users(self, order: Order) -> Sequence[Item[Any]]:
        promised = set(self._promises.to(order.name))
        seats = {(seat.pod.namespace, seat.pod.name) for seat in order.machine.seats}
        return [pod for pod in self._waiting.waiting() if pod.uid in promised or pod.key in seats]

    def _in_use(self, node: str, *, leaving: bool = True) -> bool:
        """``leaving``: also by pods that are being deleted."""
        return bool(node) and any(
            not is_finished(pod) and not is_daemon(pod) and (leaving or not pod.deleting)
            for pod in self._waiting.on_node[node]
        )
