"""The store of all orders: in memory, in ConfigMaps, and at the provider.

Creation: stored first, ordered second, confirmed third; after a crash in between the order is repeated under its name,
which the provider treats as the same order. Release: marked first, deleted second, forgotten third.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from allotment.autoscaler.order import LABEL, MachineOrder, config_map, data_of, order_for, order_of
from allotment.autoscaler.provider import NoCapacity, OrderRejected, Provider
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import CONFIG_MAPS
from allotment.planning.report import PlannedMachine

log = logging.getLogger(__name__)


class OrderStore:
    """The orders of one autoscaler with one provider."""

    def __init__(self, client: Client, namespace: str, provider: Provider) -> None:
        self._client = client
        self._namespace = namespace
        self._provider = provider
        self._known: dict[str, MachineOrder] = {}
        self._names: set[str] = set()
        """Including released orders: a new node with an old name would be taken for the old one."""
        self._placing: set[str] = set()
        self._releasing: set[str] = set()

    async def load(self) -> None:
        """Load the orders from the cluster."""
        listed = await self._client.list(CONFIG_MAPS, self._namespace, labels=f"{LABEL}={self._provider.name}")
        self._known.clear()
        for tree in listed.items:
            try:
                order = order_of(tree, self._provider.name)
            except ValueError as error:
                log.error("cannot read an order; its machine is ignored: %s", error)
                continue
            if order is not None:
                self._known[order.name] = order
        self._names |= self._known.keys()

    def __iter__(self) -> Iterator[MachineOrder]:
        """All orders at this moment; orders may be added or removed during the iteration."""
        return iter(tuple(self._known.values()))

    def __len__(self) -> int:
        return len(self._known)

    def get(self, name: str) -> MachineOrder | None:
        return self._known.get(name)

    def active(self) -> Iterable[MachineOrder]:
        """Return the orders that are not being released."""
        return (order for order in self if not order.leaving)

    async def add(self, machine: PlannedMachine, now: str, nodes: Iterable[str]) -> MachineOrder:
        """Store a new order without ordering it. ``nodes``: names that are in use."""
        order = order_for(machine, self._names.union(nodes), now)
        self._names.add(order.name)
        try:
            tree = config_map(order, self._namespace, self._provider.name)
            await self._client.create(CONFIG_MAPS, tree, self._namespace)
        except (StatusError, Unreachable) as error:
            # It may be stored nevertheless: repeating the plan stores the same order under the same name.
            self._names.discard(order.name)
            if not (isinstance(error, StatusError) and error.reason == "AlreadyExists"):
                raise
            self._names.add(order.name)
            await self._write(order)
        self._known[order.name] = order
        return order

    async def place(self, order: MachineOrder) -> MachineOrder:
        """Order a machine from the provider. Raises NoCapacity and OrderRejected, after which the order is deleted."""
        self._placing.add(order.name)
        try:
            await self._provider.create(order.name, order.machine)
            return await self.confirm(order)
        except (NoCapacity, OrderRejected):
            await self.forget(order)
            raise
        finally:
            self._placing.discard(order.name)

    def is_placing(self, order: MachineOrder) -> bool:
        """Whether the order is being placed now."""
        return order.name in self._placing

    async def confirm(self, order: MachineOrder) -> MachineOrder:
        """Record that the provider accepted it."""
        return await self._write(replace(order, confirmed=True))

    async def mark_initialised(self, order: MachineOrder, now: str) -> MachineOrder:
        """Record that its node and all its slices are complete."""
        return await self._write(replace(order, initialised=now))

    async def mark_leaving(self, order: MachineOrder, why: str) -> MachineOrder:
        """Record that it will be released, so that it is released even after a crash."""
        return await self._write(replace(order, leaving=why))

    async def release(self, order: MachineOrder) -> None:
        """Delete a machine and its order; do nothing if that is in progress."""
        if order.name in self._releasing:
            return
        self._releasing.add(order.name)
        try:
            await self._provider.delete(order.name)
            await self.forget(order)
        finally:
            self._releasing.discard(order.name)

    async def forget(self, order: MachineOrder) -> None:
        """Delete the order of a machine that does not exist."""
        try:
            await self._client.delete(CONFIG_MAPS, f"order-{order.name}", self._namespace)
        except StatusError as error:
            if error.code != 404:
                raise
        self._known.pop(order.name, None)

    async def _write(self, order: MachineOrder) -> MachineOrder:
        self._known[order.name] = order
        await self._client.patch(CONFIG_MAPS, f"order-{order.name}", {"data": data_of(order)}, self._namespace)
        return order
