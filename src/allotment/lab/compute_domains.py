"""ComputeDomains in a lab: their controller, and a driver on every simulated node with NVIDIA GPUs.

They start when the kind is defined in the cluster (``kubectl apply`` of its definition), as with the vendor's chart: a
lab without that definition has no slices for them.

The label ``nvidia.com/gpu.clique`` gives a node's position in the fabric, as on real nodes: ``<cluster
uuid>.<clique>``. Without it the node has no NVLink to other nodes.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.program import Program, ProgramContext
from allotment.cluster.resources import CUSTOM_KINDS
from allotment.drivers.nvidia.compute_domain import controller
from allotment.drivers.nvidia.compute_domain.crd import DEFINITION
from allotment.drivers.nvidia.compute_domain.domains import CachedDomains
from allotment.drivers.nvidia.compute_domain.driver import ComputeDomainDriver
from allotment.drivers.nvidia.compute_domain.fabric import SimulatedFabric
from allotment.drivers.nvidia.compute_domain.names import COMPUTE_DOMAINS
from allotment.fleet import FleetError
from allotment.lab.driver_environment import DriverEnvironment
from allotment.lab.node_drivers import DriverSet, NodeDrivers, parse_hardware
from allotment.model.core import Node

#: Set by GPU feature discovery.
CLIQUE: Final = "nvidia.com/gpu.clique"


def compute_domains(environment: DriverEnvironment) -> Program:
    """The program that waits for the kind, then runs its controller and the nodes' drivers."""
    nodes = NodeDrivers("compute domains", environment, CLIQUE)

    async def run(context: ProgramContext) -> None:
        await _wait_for_kind(context.caches.trees(CUSTOM_KINDS))
        client = context.client_for("compute-domain-driver", "compute-domain-driver")
        domains = CachedDomains(context.caches.trees(COMPUTE_DOMAINS), context.clock)

        def create(node: CachedItem[Node], hardware: str) -> DriverSet | None:
            try:
                machine = parse_hardware(node.name, hardware)
            except FleetError:
                return None  # reported where the vendors' drivers are started
            if machine.hardware.accelerator.vendor != "nvidia":
                return None
            fabric = SimulatedFabric(node.labels.get(CLIQUE, ""))
            driver = ComputeDomainDriver(node.name, fabric, client, domains)
            return DriverSet(
                frozenset({driver.name}), lambda: (environment.node_driver(driver, node.name, client, context),)
            )

        async with asyncio.TaskGroup() as group:
            group.create_task(controller.compute_domains(context), name="compute domains")
            await nodes.run(context, client, create)

    return run


async def _wait_for_kind(kinds: Cache[Any]) -> None:
    """Wait until the cluster serves the kind."""
    served = asyncio.Event()

    def changed(old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        conditions = (new.status.get("conditions") or ()) if new is not None and new.name == DEFINITION else ()
        if any(each["type"] == "Established" and each["status"] == "True" for each in conditions):
            served.set()

    await kinds.synced.wait()
    forget = kinds.on_change(changed)
    try:
        await served.wait()
    finally:
        forget()
