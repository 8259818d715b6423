"""ComputeDomains in a lab: their controller, and a driver on every simulated node with NVIDIA GPUs.

They start when the kind is defined in the cluster (``kubectl apply`` of its definition), as with the vendor's chart: a
lab without that definition has no slices for them.

The label ``nvidia.com/gpu.clique`` gives a node's position in the fabric, as on real nodes: ``<cluster
uuid>.<clique>``. Without it the node has no NVLink to other nodes.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, NamedTuple

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.program import ProgramContext, keep_alive
from allotment.cluster.resources import CUSTOM_KINDS, NODES, SLICES
from allotment.drivers.nvidia.compute_domain.controller import compute_domains
from allotment.drivers.nvidia.compute_domain.crd import DEFINITION
from allotment.drivers.nvidia.compute_domain.domains import CachedDomains, DomainLookup
from allotment.drivers.nvidia.compute_domain.driver import ComputeDomainDriver
from allotment.drivers.nvidia.compute_domain.fabric import SimulatedFabric
from allotment.drivers.nvidia.compute_domain.names import COMPUTE_DOMAINS
from allotment.drivers.publishing.publisher import Publisher
from allotment.fleet import FleetError, parse_fleet
from allotment.fleet.nvidia.compute_domain import COMPUTE_DOMAIN_DRIVER
from allotment.lab.driver_environment import DriverEnvironment
from allotment.lab.fleet import HARDWARE, is_simulated
from allotment.model.core import Node
from allotment.model.resource import ResourceSlice

#: Set by GPU feature discovery.
CLIQUE: Final = "nvidia.com/gpu.clique"


class ComputeDomains:
    """The ComputeDomain controller and node drivers; :meth:`run` is the program."""

    def __init__(self, environment: DriverEnvironment) -> None:
        self.environment = environment

    async def run(self, context: ProgramContext) -> None:
        """Wait for the kind, then run its controller and the nodes' drivers until cancelled."""
        await _wait_for_kind(context.caches.trees(CUSTOM_KINDS))
        nodes: Cache[Node] = context.caches.of(NODES, Node)
        slices: Cache[ResourceSlice] = context.caches.of(SLICES, ResourceSlice)
        client = context.client_for("compute-domain-driver", "compute-domain-driver")
        domains = CachedDomains(context.caches.trees(COMPUTE_DOMAINS), context.clock)
        await nodes.synced.wait()
        publisher = Publisher(
            client, slices, nodes, clock=context.clock, features=self.environment.features, random=context.random
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(compute_domains(context), name="compute domains")
            group.create_task(publisher.run(), name="publishing compute domains")
            work = _Work(self, context, domains, publisher, group, {})
            with ExitStack() as stack:
                stack.callback(work.end_all)
                stack.callback(nodes.on_change(work.node_changed))
                await asyncio.get_running_loop().create_future()


class _NodeDriver(NamedTuple):
    """The driver of a node. ``identity``: the node's hardware and its clique."""

    identity: tuple[str, str]
    task: asyncio.Task[None]


class _Work(NamedTuple):
    program: ComputeDomains
    context: ProgramContext
    domains: DomainLookup
    publisher: Publisher
    group: asyncio.TaskGroup
    kept: dict[str, _NodeDriver]

    def node_changed(self, old: CachedItem[Node] | None, new: CachedItem[Node] | None) -> None:
        """Start, restart or stop the driver of a node."""
        item = new or old
        assert item is not None
        form = _nvidia_hardware(new) if new is not None else ""
        identity = form, item.labels.get(CLIQUE, "")
        kept = self.kept.get(item.name)
        if kept is not None and kept.identity != identity:
            self.end(item.name, with_node=new is None)
            if new is not None and not form:
                self.publisher.set_pools(
                    COMPUTE_DOMAIN_DRIVER, item.name, ()
                )  # no driver remains to prepare the published devices
        if new is None:
            self.publisher.remove(COMPUTE_DOMAIN_DRIVER, item.name)
        if form and item.name not in self.kept:
            name = f"compute domains of {item.name}"
            serve = partial(self._serve, item.name, identity[1])
            task = self.group.create_task(keep_alive(name, self.context, serve), name=name)
            self.kept[item.name] = _NodeDriver(identity, task)

    async def _serve(self, node: str, clique: str, context: ProgramContext) -> None:
        client = context.client_for("compute-domain-driver", "compute-domain-driver")
        driver = self.program.environment.node_driver(
            ComputeDomainDriver(node, SimulatedFabric(clique), client, self.domains), node, client, context
        )
        await driver.recover()
        self.program.environment.kubelets.plugins.add(node, driver)
        await driver.run(self.publisher)

    def end(self, node: str, *, with_node: bool = False) -> None:
        """Stop the driver of a node."""
        plugins = self.program.environment.kubelets.plugins
        self.kept.pop(node).task.cancel()
        self.publisher.remove(COMPUTE_DOMAIN_DRIVER, node)
        (plugins.forget if with_node else plugins.remove)(node, COMPUTE_DOMAIN_DRIVER)

    def end_all(self) -> None:
        """Stop all drivers."""
        for node in tuple(self.kept):
            self.end(node)


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


def _nvidia_hardware(node: CachedItem[Node]) -> str:
    """The hardware annotation of a simulated node; empty if it is not NVIDIA hardware."""
    form = str((node.metadata.get("annotations") or {}).get(HARDWARE, ""))
    if not form or not is_simulated(node.tree):
        return ""
    try:
        (machine,) = parse_fleet([f"{node.name}={form}"])
    except (FleetError, ValueError):
        return ""
    return form if machine.hardware.accelerator.vendor == "nvidia" else ""
