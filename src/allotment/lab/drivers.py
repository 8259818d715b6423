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
from collections.abc import Iterator
from typing import Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.program import Program, ProgramContext
from allotment.drivers.nvidia.simulated.compute_server import ComputeServer
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.drivers.vendors import simulated_drivers
from allotment.fleet import FleetError
from allotment.lab.fleet import HARDWARE
from allotment.lab.node_drivers import DriverSet, NodeDrivers, parse_hardware
from allotment.model.core import Node

FAULTS: Final = "allotment.dev/faults"
GATES: Final = "allotment.dev/driver-gates"


def vendor_drivers(nodes: NodeDrivers) -> Program:
    """The program that runs the vendors' drivers on nodes."""

    async def run(context: ProgramContext) -> None:
        compute = ComputeServer(speed=context.clock.speed)
        recorder = context.recorder("dra-driver")

        def warn(node: CachedItem[Node], reason: str, message: str) -> None:
            recorder.event(node.tree, "Warning", reason, message, "Driving")

        def create(node: CachedItem[Node], hardware: str) -> DriverSet | None:
            try:
                machine = parse_hardware(node.name, hardware)
            except FleetError as error:
                warn(node, "UnknownHardware", f"annotation {HARDWARE}: {error}")
                return None
            simulated = simulated_drivers(machine, compute)
            nodes.environment.machine(node.name)  # for the kubelet, which handles the node's change after this program

            def node_drivers() -> Iterator[NodeDriver]:
                # Separate field managers: drivers that share a claim would otherwise remove each other's statuses.
                for driver in simulated.drivers:
                    client = context.client_for("dra-driver", driver.name)
                    yield nodes.environment.node_driver(driver, node.name, client, context)

            def configure(changed: CachedItem[Node]) -> None:
                annotations = changed.metadata.get("annotations") or {}
                for annotation, act, reason in (
                    (FAULTS, simulated.set_faults, "UnknownFault"),
                    (GATES, simulated.set_gates, "UnknownGate"),
                ):
                    try:
                        act(annotations.get(annotation, ""))
                    except ValueError as error:
                        warn(changed, reason, f"annotation {annotation}: {error}")

            def close() -> None:
                nodes.environment.machines.pop(node.name, None)
                simulated.close()

            names = frozenset(driver.name for driver in simulated.drivers)
            return DriverSet(names, node_drivers, simulated.programs, configure, close)

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(compute.run(), name="simulated computing")
                await nodes.run(context, context.client_for("dra-driver", "dra-driver"), create)
        finally:
            compute.close()  # its task may have been cancelled before it started

    return run
