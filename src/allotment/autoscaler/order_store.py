"""All orders: in memory, in the cluster, and with the cloud, in that order when they come and go.

Written first, ordered second, confirmed third: a crash in between leaves an order that is asked for again under its
name, which a provider takes as asked once. Given back: said first, done second, forgotten third.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from allotment.autoscaler.order import LABEL, MachineOrder, config_map, data_of, order_for, order_of
from allotment.autoscaler.provider import NoCapacity, Provider, OrderRejected
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import CONFIG_MAPS
from allotment.tools.plan.report import PlannedMachine

log = logging.getLogger(__name__)


class OrderStore:
    """One autoscaler's orders with one provider."""

    def __init__(self, client: Client, namespace: str, provider: Provider) -> None:
        self._client = client
        self._namespace = namespace
        self._provider = provider
        self._known: dict[str, MachineOrder] = {}
        self._names: set[str] = set()
        """Also of those that are gone: a node that comes again under its name is taken for the old one."""
        self._placing: set[str] = set()
        self._releasing: set[str] = set()

    async def load(self) -> None:
        """What the cluster remembers."""
        listed = await self._client.list(CONFIG_MAPS, self._namespace, labels=f"{LABEL}={self._provider.name}")
        self._known.clear()
        for tree in listed.items:
            try:
                order = order_of(tree, self._provider.name)
            except ValueError as error:
                log.error("an order cannot be read, and what came of it is left alone: %s", error)
                continue
            if order is not None:
                self._known[order.name] = order
        self._names |= self._known.keys()

    def __iter__(self) -> Iterator[MachineOrder]:
        """All of them, as they are now; they may change meanwhile."""
        return iter(tuple(self._known.values()))

    def __len__(self) -> int:
        return len(self._known)

    def get(self, name: str) -> MachineOrder | None:
        """One order."""
        return self._known.get(name)

    def active(self) -> Iterable[MachineOrder]:
        """Those that are not being given back."""
        return (order for order in self if not order.leaving)

    async def add(self, machine: PlannedMachine, now: str, nodes: Iterable[str]) -> MachineOrder:
        """Write a new order down; nobody has heard of it yet. ``nodes``: names that are taken."""
        order = order_for(machine, self._names.union(nodes), now)
        self._names.add(order.name)
        try:
            tree = config_map(order, self._namespace, self._provider.name)
            await self._client.create(CONFIG_MAPS, tree, self._namespace)
        except (StatusError, Unreachable) as error:
            # It may be written all the same: who plans the same again writes the same again, under the same name.
            self._names.discard(order.name)
            if not (isinstance(error, StatusError) and error.reason == "AlreadyExists"):
                raise
            self._names.add(order.name)
            await self._write(order)
        self._known[order.name] = order
        return order

    async def place(self, order: MachineOrder) -> MachineOrder:
        """Order a machine with the cloud. Raises NoCapacity and Refused, after which nothing is left of the order."""
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
        """Whether the cloud is being asked for it right now."""
        return order.name in self._placing

    async def confirm(self, order: MachineOrder) -> MachineOrder:
        """The cloud has it."""
        return await self._write(replace(order, confirmed=True))

    async def mark_initialised(self, order: MachineOrder, now: str) -> MachineOrder:
        """Its node and all its slices are there."""
        return await self._write(replace(order, initialised=now))

    async def mark_leaving(self, order: MachineOrder, why: str) -> MachineOrder:
        """It will be given back, whatever happens in between."""
        return await self._write(replace(order, leaving=why))

    async def release(self, order: MachineOrder) -> None:
        """Give a machine back and forget it; nothing is done if somebody here is about it already."""
        if order.name in self._releasing:
            return
        self._releasing.add(order.name)
        try:
            await self._provider.delete(order.name)
            await self.forget(order)
        finally:
            self._releasing.discard(order.name)

    async def forget(self, order: MachineOrder) -> None:
        """There is no machine of that order any more."""
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
