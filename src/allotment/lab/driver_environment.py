"""What the drivers of a lab's nodes stand on: the kubelets that call them, and where these look for what they write."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from allotment.cdi.store import FolderStore, MemoryStore
from allotment.cluster.client import Client
from allotment.cluster.program import Context
from allotment.drivers.driver import Driver
from allotment.drivers.host import DriverHost, MemoryStorage
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.drivers.vendors import DRIVERS_OF
from allotment.fleet import FleetError, parse_fleet
from allotment.model.features import Features
from allotment.node.kubelet import Kubelets
from allotment.node.node_config import Machine
from allotment.node.runtimes.runtime import Runtime


class DriverEnvironment(NamedTuple):
    """One for all programs of a lab.

    ``machines`` is what the kubelets were given: how each node runs pods. ``boot`` differs from lab to lab, for what
    was prepared on simulated hardware is gone with the process. ``runtime``: what nodes run containers with; None for
    the simulated one. ``roots``: a folder for each node's kubelet, in which drivers of other processes can register.
    ``states``: a folder for what nodes keep of their pods while the lab runs (volumes, what programs can read of their
    devices), where containers are real.
    """

    kubelets: Kubelets
    machines: dict[str, Machine]
    features: Features
    boot: str
    runtime: Runtime | None = None
    roots: Path | None = None
    states: Path | None = None

    def machine(self, node: str) -> Machine:
        """How a node runs pods; the same for all its drivers."""
        known = self.machines.get(node)
        if known is None:
            stores = (MemoryStore(),) if self.roots is None else (MemoryStore(), FolderStore(self.roots / node / "cdi"))
            state = None if self.states is None else self.states / node
            known = self.machines[node] = Machine(self.runtime, stores, state)
        return known

    def node_driver(self, driver: Driver, node: str, client: Client, context: Context) -> NodeDriver:
        """A driver in this process, on a node. Where containers are real, they can read of their devices in files."""
        folder = None if self.states is None else self.states / node / "plugins" / driver.name
        host = DriverHost(node, self.boot, MemoryStorage(), self.machine(node).cdi[0], folder)
        return NodeDriver(driver, host, client, context.clock, metadata=folder is not None, random=context.random)

    def open(self, node: str) -> None:
        """Let drivers of other processes register for a node, as on a real one."""
        if self.roots is None:
            return
        registry = self.roots / node / "plugins_registry"
        for folder in (registry, self.roots / node / "plugins", self.roots / node / "cdi"):
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        self.kubelets.plugins.watch_folder(node, registry)

    def expect(self, node: str, form: str) -> None:
        """Drivers will come to a node that has such hardware: until they are there, its claims wait for them."""
        try:
            (machine,) = parse_fleet([f"{node}={form}"])
        except (FleetError, ValueError):
            return  # whoever starts the drivers says so
        for driver in DRIVERS_OF[machine.hardware.accelerator.vendor]:
            self.kubelets.plugins.expect(node, driver)
