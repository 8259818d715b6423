"""The environment of a lab's drivers: the kubelets that call them, and the machine state of each node."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from allotment.cdi.store import FolderStore, MemoryStore
from allotment.cluster.client import Client
from allotment.cluster.program import ProgramContext
from allotment.drivers.driver import Driver
from allotment.drivers.host import DriverHost, MemoryStorage
from allotment.drivers.preparation.metadata import metadata_versions
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.drivers.vendors import DRIVERS_OF
from allotment.fleet import FleetError, parse_fleet
from allotment.model.features import Features
from allotment.node.kubelet import Kubelets
from allotment.node.node_config import Machine
from allotment.node.runtimes.runtime import Runtime


class DriverEnvironment(NamedTuple):
    """The environment that all programs of a lab share.

    ``machines`` is passed to the kubelets: how each node runs pods. ``boot`` differs between labs, because devices
    prepared on simulated hardware are lost with the process. ``runtime``: the container runtime of the nodes; None for
    the simulated one. ``roots``: a folder for each node's kubelet, in which external drivers can register. ``states``:
    a folder for the pod state of nodes while the lab runs (volumes, device files), where containers are real.
    ``volumes``: the folder of persistent volumes, which all nodes share.
    """

    kubelets: Kubelets
    machines: dict[str, Machine]
    features: Features
    boot: str
    runtime: Runtime | None = None
    roots: Path | None = None
    states: Path | None = None
    volumes: Path | None = None

    def machine(self, node: str) -> Machine:
        """The machine state of a node, shared by its drivers."""
        known = self.machines.get(node)
        if known is None:
            stores = (MemoryStore(),) if self.roots is None else (MemoryStore(), FolderStore(self.roots / node / "cdi"))
            state = None if self.states is None else self.states / node
            known = self.machines[node] = Machine(self.runtime, stores, state, self.volumes)
        return known

    def node_driver(self, driver: Driver, node: str, client: Client, context: ProgramContext) -> NodeDriver:
        """Create an in-process driver on a node. Where containers are real, it writes device files for them."""
        folder = None if self.states is None else self.states / node / "plugins" / driver.name
        host = DriverHost(node, self.boot, MemoryStorage(), self.machine(node).cdi[0], folder)
        metadata = metadata_versions(self.features) if folder is not None else ()
        return NodeDriver(driver, host, client, context.clock, metadata=metadata, random=context.random)

    def open(self, node: str) -> None:
        """Let external drivers register for a node, as on a real one."""
        if self.roots is None:
            return
        registry = self.roots / node / "plugins_registry"
        for folder in (registry, self.roots / node / "plugins", self.roots / node / "cdi"):
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        self.kubelets.plugins.watch_folder(node, registry)

    def expect(self, node: str, form: str) -> None:
        """Expect drivers for a node's hardware: until they register, its claims wait for them."""
        try:
            (machine,) = parse_fleet([f"{node}={form}"])
        except (FleetError, ValueError):
            return  # invalid hardware is reported where the drivers are started
        for driver in DRIVERS_OF[machine.hardware.accelerator.vendor]:
            self.kubelets.plugins.expect(node, driver)
