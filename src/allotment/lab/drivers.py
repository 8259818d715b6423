"""Vendor drivers on the simulated nodes of a lab: one program for all of them.

A node with annotation ``allotment.dev/hardware`` (in the syntax of ``--fleet``) gets the drivers of that hardware, on a
simulation of it; they publish its devices and prepare claims as on a real node. The driver code is the same, only the
hardware layer differs. Nodes that a user or an autoscaler creates therefore have devices, too.

Annotation ``allotment.dev/faults`` breaks hardware while the lab runs (``gpu-3=gone,gpu-0=xid-79``), and repairs
devices that it no longer lists. Annotation ``allotment.dev/driver-gates`` disables feature gates of the vendor's driver
(``TimeSlicingSettings=false,MPSSupport=false``) that are off by default in the real one, and on here.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Final, NamedTuple

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.program import Program, ProgramContext, keep_alive
from allotment.cluster.recorder import Recorder
from allotment.cluster.resources import NODES, SLICES
from allotment.drivers.nvidia.simulated.compute_server import ComputeServer
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.drivers.publishing.publisher import PoolWarning, Publisher
from allotment.drivers.vendors import MachineDrivers, simulated_drivers
from allotment.fleet import FleetError, FleetMachine, parse_fleet
from allotment.lab.driver_environment import DriverEnvironment
from allotment.lab.fleet import HARDWARE, is_simulated
from allotment.model.core import Node
from allotment.model.resource import ResourceSlice

FAULTS: Final = "allotment.dev/faults"
GATES: Final = "allotment.dev/driver-gates"

log = logging.getLogger(__name__)


class _NodeDrivers(NamedTuple):
    """The drivers of a node. ``form``: its hardware. ``registered_event``: set when its kubelet can call them."""

    form: str
    fitted: MachineDrivers
    drivers: tuple[NodeDriver, ...]
    registered_event: asyncio.Event
    task: asyncio.Task[None]

    @property
    def names(self) -> frozenset[str]:
        """The names of the drivers."""
        return frozenset(driver.name for driver in self.drivers)


class Drivers:
    """The drivers of all simulated nodes; :meth:`run` is the program."""

    def __init__(self, environment: DriverEnvironment) -> None:
        self.environment = environment
        self._published: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._kept: dict[str, _NodeDrivers] = {}
        #: Set when the drivers of the initial nodes that were registered_event at the start can be called.
        self.registered = asyncio.Event()

    def of(self, node: str) -> tuple[NodeDriver, ...]:
        """The drivers on a node, for inspection of their hardware."""
        kept = self._kept.get(node)
        return kept.drivers if kept is not None else ()

    async def run(self, context: ProgramContext) -> None:
        """Run the drivers of every simulated node until cancelled."""
        nodes: Cache[Node] = context.caches.of(NODES, Node)
        slices: Cache[ResourceSlice] = context.caches.of(SLICES, ResourceSlice)
        client = context.client_for("dra-driver", "dra-driver")
        await nodes.synced.wait()
        publisher = Publisher(
            client,
            slices,
            nodes,
            clock=context.clock,
            features=self.environment.features,
            random=context.random,
            report=_report,
        )
        recorder = context.recorder("dra-driver")
        compute = ComputeServer(speed=context.clock.speed)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(publisher.run(), name="publishing")
                group.create_task(compute.run(), name="simulated computing")
                work = _Work(self, context, publisher, recorder, compute, group, self._kept)
                with ExitStack() as stack:
                    stack.callback(work.end_all)
                    stack.callback(nodes.on_change(work.node_changed))
                    for kept in tuple(self._kept.values()):
                        await kept.registered_event.wait()
                    self.registered.set()
                    await asyncio.get_running_loop().create_future()
        finally:
            compute.close()  # its task may have been cancelled before it started

    async def published(self, nodes: Iterable[str]) -> None:
        """Wait until the devices of these nodes are published."""
        for name in nodes:
            await self._published[name].wait()


class _Work(NamedTuple):
    drivers: Drivers
    context: ProgramContext
    publisher: Publisher
    recorder: Recorder
    compute: ComputeServer
    group: asyncio.TaskGroup
    kept: dict[str, _NodeDrivers]

    def node_changed(self, old: CachedItem[Node] | None, new: CachedItem[Node] | None) -> None:
        """Start, restart or stop the drivers of a node, and apply its faults and gates."""
        item = new or old
        assert item is not None
        name = item.name
        annotations = (new.metadata.get("annotations") or {}) if new is not None and is_simulated(new.tree) else {}
        form = annotations.get(HARDWARE, "")
        kept = self.kept.get(name)
        removed: frozenset[str] = frozenset()
        if kept is not None and kept.form != form:
            removed = kept.names
            self.end(name, with_node=new is None)
            kept = None
        if new is not None and form and kept is None:
            kept = self.begin(new, form)
        if new is not None:
            for driver in removed - (kept.names if kept is not None else frozenset()):
                self.group.create_task(self._withdraw(driver, name), name=f"withdrawing {driver} on {name}")
        if kept is not None and new is not None:
            for annotation, act, reason in (
                (FAULTS, kept.fitted.set_faults, "UnknownFault"),
                (GATES, kept.fitted.set_gates, "UnknownGate"),
            ):
                try:
                    act(annotations.get(annotation, ""))
                except ValueError as error:
                    self.warn(new, reason, f"annotation {annotation}: {error}")

    def begin(self, node: CachedItem[Node], form: str) -> _NodeDrivers | None:
        """Start the drivers of a node's hardware; report unknown hardware."""
        try:
            machine = _machine(node.name, form)
        except FleetError as error:
            message = "; ".join(filter(None, (f"annotation {HARDWARE}: {error}", error.hint)))
            self.warn(node, "UnknownHardware", message)
            self.drivers._published[node.name].set()
            return None
        fitted = simulated_drivers(machine, self.compute)
        # Separate field managers: drivers that share a claim would otherwise remove each other's statuses.
        drivers = tuple(
            self.drivers.environment.node_driver(
                driver, node.name, self.context.client_for("dra-driver", driver.name), self.context
            )
            for driver in fitted.drivers
        )
        registered_event = asyncio.Event()

        async def serve(context: ProgramContext) -> None:
            try:
                await self._serve(node.name, drivers, fitted.programs, registered_event)
            finally:  # release waiters if the drivers of the node fail
                registered_event.set()
                self.drivers._published[node.name].set()

        name = f"drivers of {node.name}"
        task = self.group.create_task(keep_alive(name, self.context, serve), name=name)
        kept = self.kept[node.name] = _NodeDrivers(form, fitted, drivers, registered_event, task)
        return kept

    async def _serve(
        self, node: str, drivers: tuple[NodeDriver, ...], programs: Iterable[Program], registered_event: asyncio.Event
    ) -> None:
        async with asyncio.TaskGroup() as group:
            for program in programs:
                group.create_task(_run(program, self.context), name=f"driver programs of {node}")
            for driver in drivers:
                await driver.recover()
                self.drivers.environment.kubelets.plugins.add(node, driver)
                self.publisher.set_pools(driver.name, node, await driver.discover_pools())
                group.create_task(driver.run(self.publisher), name=f"{driver.name} on {node}")
            registered_event.set()
            for driver in drivers:
                await self.publisher.wait_published(driver.name, node)
            self.drivers._published[node].set()

    async def _withdraw(self, driver: str, node: str) -> None:
        """Publish empty pools for removed hardware, so that its devices are not allocated."""
        self.publisher.set_pools(driver, node, ())
        await self.publisher.wait_published(driver, node)
        kept = self.kept.get(node)
        if kept is None or driver not in kept.names:
            self.publisher.remove(driver, node)

    def warn(self, node: CachedItem[Node], reason: str, message: str) -> None:
        """Record a warning event about a node."""
        self.recorder.event(node.tree, "Warning", reason, message, "Driving")

    def end(self, name: str, *, with_node: bool = False) -> None:
        """Stop a node's drivers; their slices are deleted with the node or replaced by those of its new hardware."""
        plugins = self.drivers.environment.kubelets.plugins
        kept = self.kept.pop(name)
        kept.task.cancel()
        kept.registered_event.set()  # release waiters
        for driver in kept.drivers:
            self.publisher.remove(driver.name, name)
            # Preparation is lost with the machine: its pods must not wait for a driver to undo it.
            (plugins.forget if with_node else plugins.remove)(name, driver.name)
        self.drivers.environment.machines.pop(name, None)
        kept.fitted.close()

    def end_all(self) -> None:
        """Stop all drivers."""
        for name in tuple(self.kept):
            self.end(name)


def _machine(node: str, form: str) -> FleetMachine:
    """Parse the hardware of a node. Raises FleetError."""
    found = parse_fleet([f"{node}={form}"])
    if len(found) != 1:
        raise FleetError(f"expected the hardware of one node, found {form!r}", "[GPUSx]HARDWARE[/MODE]")
    return found[0]


async def _run(program: Program, context: ProgramContext) -> None:
    await program(context)


def _report(note: PoolWarning) -> None:
    log.warning("%s on %s, pool %s: %s: %s", note.driver, note.node, note.pool, note.reason, note.message)
