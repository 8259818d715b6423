"""Drivers on the simulated nodes of a lab: started with a node, restarted with its hardware, stopped with the node.

Which drivers a node gets is decided by the program that runs them: :mod:`allotment.lab.drivers` for devices,
:mod:`allotment.lab.compute_domains` for ComputeDomains. Both run the drivers of each node in a task of its own, so that
a failure affects no other node.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import NamedTuple

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.client import Client
from allotment.cluster.program import Program, ProgramContext, keep_alive
from allotment.cluster.resources import NODES, SLICES
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.drivers.publishing.publisher import Publisher
from allotment.fleet import FleetError, FleetMachine, parse_fleet
from allotment.lab.driver_environment import DriverEnvironment
from allotment.lab.fleet import HARDWARE, is_simulated
from allotment.model.core import Node
from allotment.model.resource import ResourceSlice


class DriverSet(NamedTuple):
    """The drivers for the hardware of a node, by their names.

    ``create``: called in the node's task, until it succeeds once: by then every program has handled the change of the
    node, and the folders of earlier hardware are gone. ``programs`` run with the drivers. ``configure``: called with
    the node at the start and after each of its changes. ``close``: called when the drivers are stopped.
    """

    names: frozenset[str]
    create: Callable[[], Iterable[NodeDriver]]
    programs: tuple[Program, ...] = ()
    configure: Callable[[CachedItem[Node]], None] | None = None
    close: Callable[[], None] | None = None


#: Creates the drivers for a node and its hardware, in the syntax of ``--fleet``; None if there are none.
CreateDrivers = Callable[[CachedItem[Node], str], DriverSet | None]


class _RunningDrivers(NamedTuple):
    """``identity``: when it changes, the drivers are replaced. ``registered``: set when a kubelet can call them."""

    identity: tuple[str, str]
    set: DriverSet
    drivers: list[NodeDriver]
    registered: asyncio.Event
    task: asyncio.Task[None]


class NodeDrivers:
    """The drivers of all simulated nodes that a program runs.

    ``name``: of the program's tasks. ``label``: a node label whose change restarts the node's drivers.
    """

    def __init__(self, name: str, environment: DriverEnvironment, label: str = "") -> None:
        self.name = name
        self.environment = environment
        self.label = label
        self._published: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._running: dict[str, _RunningDrivers] = {}
        #: Set when the drivers of the nodes that existed at the start can be called.
        self.registered = asyncio.Event()

    def of(self, node: str) -> tuple[NodeDriver, ...]:
        """The drivers on a node, for inspection of their hardware."""
        running = self._running.get(node)
        return tuple(running.drivers) if running is not None else ()

    async def published(self, nodes: Iterable[str]) -> None:
        """Wait until the devices of these nodes are published."""
        for name in nodes:
            await self._published[name].wait()

    async def run(self, context: ProgramContext, client: Client, create: CreateDrivers) -> None:
        """Run the drivers of every simulated node until cancelled. ``client`` publishes their devices."""
        nodes: Cache[Node] = context.caches.of(NODES, Node)
        slices: Cache[ResourceSlice] = context.caches.of(SLICES, ResourceSlice)
        await nodes.synced.wait()
        publisher = Publisher(
            client, slices, nodes, clock=context.clock, features=self.environment.features, random=context.random
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(publisher.run(), name=f"publishing {self.name}")
            work = _Work(self, context, create, publisher, group, self._running, self._published)
            with ExitStack() as stack:
                stack.callback(work.stop_all)
                stack.callback(nodes.on_change(work.node_changed))
                for running in tuple(self._running.values()):
                    await running.registered.wait()
                self.registered.set()
                await asyncio.get_running_loop().create_future()


class _Work(NamedTuple):
    """A run of the program."""

    nodes: NodeDrivers
    context: ProgramContext
    create: CreateDrivers
    publisher: Publisher
    group: asyncio.TaskGroup
    running: dict[str, _RunningDrivers]
    published: defaultdict[str, asyncio.Event]

    def node_changed(self, old: CachedItem[Node] | None, new: CachedItem[Node] | None) -> None:
        """Start, restart, configure or stop the drivers of a node."""
        item = new or old
        assert item is not None
        annotations = (new.metadata.get("annotations") or {}) if new is not None and is_simulated(new.tree) else {}
        hardware = str(annotations.get(HARDWARE, ""))
        identity = hardware, item.labels.get(self.nodes.label, "")
        running = self.running.get(item.name)
        stopped: frozenset[str] = frozenset()
        if running is not None and running.identity != identity:
            stopped = running.set.names
            self.stop(item.name, with_node=new is None)
            running = None
        if new is None:
            return
        if hardware and running is None:
            running = self.start(new, identity)
        for driver in stopped - (running.set.names if running is not None else frozenset()):
            self.group.create_task(self._withdraw(driver, item.name), name=f"withdrawing {driver} on {item.name}")
        if running is not None and running.set.configure is not None:
            running.set.configure(new)

    def start(self, node: CachedItem[Node], identity: tuple[str, str]) -> _RunningDrivers | None:
        """Start the drivers of a node's hardware, if there are any."""
        created = self.create(node, identity[0])
        if created is None:
            self.published[node.name].set()
            return None
        drivers: list[NodeDriver] = []
        registered = asyncio.Event()

        async def serve(context: ProgramContext) -> None:
            try:
                if not drivers:  # kept after a failure, with what they have prepared
                    drivers.extend(tuple(created.create()))
                await self._serve(node.name, drivers, created.programs, registered)
            finally:  # release waiters if the drivers of the node fail
                registered.set()
                self.published[node.name].set()

        name = f"{self.nodes.name} of {node.name}"
        task = self.group.create_task(keep_alive(name, self.context, serve), name=name)
        running = self.running[node.name] = _RunningDrivers(identity, created, drivers, registered, task)
        return running

    async def _serve(
        self, node: str, drivers: Iterable[NodeDriver], programs: Iterable[Program], registered: asyncio.Event
    ) -> None:
        async with asyncio.TaskGroup() as group:
            for program in programs:
                group.create_task(_run(program, self.context), name=f"driver programs of {node}")
            for driver in drivers:
                await driver.recover()
                self.nodes.environment.kubelets.plugins.add(node, driver)
                self.publisher.set_pools(driver.name, node, await driver.discover_pools())
                group.create_task(driver.run(self.publisher), name=f"{driver.name} on {node}")
            registered.set()
            for driver in drivers:
                await self.publisher.wait_published(driver.name, node)
            self.published[node].set()

    async def _withdraw(self, driver: str, node: str) -> None:
        """Publish empty pools for removed hardware, so that its devices are not allocated."""
        self.publisher.set_pools(driver, node, ())
        await self.publisher.wait_published(driver, node)
        running = self.running.get(node)
        if running is None or driver not in running.set.names:
            self.publisher.remove(driver, node)

    def stop(self, name: str, *, with_node: bool = False) -> None:
        """Stop a node's drivers; their slices are deleted with the node or replaced by those of its new hardware."""
        plugins = self.nodes.environment.kubelets.plugins
        running = self.running.pop(name)
        running.task.cancel()
        running.registered.set()  # release waiters
        for driver in running.set.names:
            self.publisher.remove(driver, name)
            # Preparation is lost with the machine: its pods must not wait for a driver to undo it.
            (plugins.forget if with_node else plugins.remove)(name, driver)
        if running.set.close is not None:
            running.set.close()

    def stop_all(self) -> None:
        """Stop all drivers."""
        for name in tuple(self.running):
            self.stop(name)


def parse_hardware(node: str, hardware: str) -> FleetMachine:
    """Parse the hardware of a node. Raises FleetError."""
    found = parse_fleet([f"{node}={hardware}"])
    if len(found) != 1:
        raise FleetError(f"expected the hardware of one node, found {hardware!r}", "[GPUSx]HARDWARE[/MODE]")
    return found[0]


async def _run(program: Program, context: ProgramContext) -> None:
    await program(context)
