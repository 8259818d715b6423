"""Simulated nodes with the NVIDIA driver, and claims for their devices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from allotment.drivers.driver import AllocatedClaim, AllocatedDevice, PreparedClaim, ReadyDevice
from allotment.drivers.nvidia.config import ALL_ON, VERSION, FeatureGates
from allotment.drivers.nvidia.driver import NvidiaDriver
from allotment.drivers.nvidia.simulated.fault_injection import FaultInjector
from allotment.drivers.nvidia.simulated.hardware import SimulatedHardware
from allotment.drivers.preparation import configuration
from allotment.fleet.hardware import hardware
from allotment.fleet.modes import Full, NvidiaMode, parse_mode
from allotment.fleet.nvidia import gpus_of
from allotment.fleet.nvidia.published_devices import fixed_mig_devices
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree

NODE = "n1"


class SimulatedNode(NamedTuple):
    """A node with the driver on simulated hardware. ``pci``: addresses by minor number."""

    driver: NvidiaDriver
    hardware: SimulatedHardware
    faults: FaultInjector
    pci: tuple[str, ...]

    def plan(self, uid: str, *allocated: AllocatedDevice, others: tuple[Tree, ...] = ()) -> Tree:
        """The plan of a claim."""
        return self.driver.plan(AllocatedClaim(uid, "default", uid, allocated, others))

    async def prepare(
        self, uid: str, *allocated: AllocatedDevice, others: tuple[Tree, ...] = ()
    ) -> tuple[Tree, PreparedClaim]:
        """Plan and prepare a claim; returns both results."""
        claim = AllocatedClaim(uid, "default", uid, allocated, others)
        plan = self.driver.plan(claim)
        return plan, await self.driver.prepare(claim, plan)

    def card(self, minor: int = 0) -> Any:
        """The settings of a GPU."""
        return self.hardware.snapshot().cards[self.pci[minor]]

    def daemons(self) -> list[Any]:
        """The running MPS daemons."""
        return list(self.hardware.snapshot().daemons.values())


async def simulated_node(
    machine: str = "dgx-a100-40gb",
    mode: str = "full",
    *,
    gpus: int | None = None,
    gates: FeatureGates = ALL_ON,
    state: Path | None = None,
    address: Callable[[str], str] | None = None,
) -> SimulatedNode:
    """A node whose driver has discovered its devices."""
    machine_hardware = hardware(machine, gpus)
    parsed = parse_mode(mode, machine_hardware)
    assert isinstance(parsed, NvidiaMode)
    facts = gpus_of(machine_hardware, NODE, parsed)
    faults = FaultInjector()
    simulated = SimulatedHardware(
        facts, state, fixed_mig=fixed_mig_devices(facts, NODE, parsed), name=NODE, address=address, faults=faults
    )
    driver = NvidiaDriver(simulated, parsed, gates=gates)
    await driver.discover()
    return SimulatedNode(driver, simulated, faults, tuple(slot.pci for slot in machine_hardware.slots))


def config(kind: str, gates: FeatureGates = ALL_ON, **fields: Any) -> Any:
    """Parameters, decoded and validated as the node driver does."""
    driver = NvidiaDriver(SimulatedHardware(()), Full(), gates=gates)
    value = configuration.decode({"apiVersion": VERSION, "kind": kind, **fields}, driver.configs)
    driver.validate(value)
    return value


def gpu(
    device: str, config: Any = None, *, request: str = "gpu", share: str = "", admin: bool = False, **consumed: str
) -> AllocatedDevice:
    """An allocated device."""
    amounts = {name: Quantity.parse(amount) for name, amount in consumed.items()}
    return AllocatedDevice(request, NODE, device, config, admin, share, amounts)


def mps(**fields: Any) -> Any:
    """GpuConfig with MPS."""
    return config("GpuConfig", sharing={"strategy": "MPS", "mpsConfig": fields})


def time_slicing(interval: str) -> Any:
    """GpuConfig with time slices."""
    return config("GpuConfig", sharing={"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": interval}})


def only_device(prepared: PreparedClaim) -> ReadyDevice:
    """The one device of a claim."""
    (ready,) = prepared.devices.values()
    return ready


def env(ready: ReadyDevice) -> dict[str, str]:
    """The environment variables of a prepared device."""
    return dict(variable.split("=", 1) for variable in ready.edits.env)


def paths(ready: ReadyDevice) -> list[str]:
    """The device nodes of a prepared device."""
    return [device_node.path for device_node in ready.edits.device_nodes]
