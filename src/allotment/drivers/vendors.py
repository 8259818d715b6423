"""The drivers of a node by vendor: over simulated hardware or over the hardware of the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from allotment.cluster.clock import Clock
from allotment.cluster.program import Program
from allotment.drivers.amd.driver import AmdDriver
from allotment.drivers.amd.kernel import KernelHardware
from allotment.drivers.amd.kernel_files import HostFiles
from allotment.drivers.amd.simulated.hardware import SimulatedHardware as SimulatedAmd
from allotment.drivers.driver import Driver
from allotment.drivers.example.binding_conditions import controller
from allotment.drivers.example.driver import ExampleCpus, ExampleDriver, ExampleGpus, ExampleNics, parse_faults
from allotment.drivers.nvidia.config import parse_feature_gates
from allotment.drivers.nvidia.driver import NvidiaDriver
from allotment.drivers.nvidia.host.hardware import HostHardware
from allotment.drivers.nvidia.host.roots import Roots
from allotment.drivers.nvidia.simulated.compute_server import ComputeServer
from allotment.drivers.nvidia.simulated.declared_faults import DeclaredFaults
from allotment.drivers.nvidia.simulated.hardware import SimulatedHardware
from allotment.drivers.simulation import SimulatedHardwareDriver
from allotment.fleet import FleetError, FleetMachine
from allotment.fleet.amd import DRIVER as AMD_DRIVER
from allotment.fleet.example import CPU_DRIVER, GPU_DRIVER, NET_DRIVER
from allotment.fleet.modes import (
    AutoPartition,
    ExampleMode,
    NvidiaMode,
    Partitioned,
    VirtualMachines,
    Vocabulary,
    nvidia_mode,
)
from allotment.fleet.nvidia import COMPUTE_DOMAIN_DRIVER, fixed_mig_devices, gpus_of
from allotment.fleet.nvidia import DRIVER as NVIDIA_DRIVER

#: The names of the drivers that a machine may have, by vendor.
DRIVERS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "amd": (AMD_DRIVER,),
    "example": (GPU_DRIVER, NET_DRIVER, CPU_DRIVER),
    "nvidia": (NVIDIA_DRIVER, COMPUTE_DOMAIN_DRIVER),
}

# --- simulated --------------------------------------------------------------------------------------------------------


def reject_gates(text: str) -> None:
    """Reject feature gates for a driver without any. Raises ValueError."""
    if text:
        raise ValueError(f"this driver has no feature gates; found {text!r}")


class MachineDrivers(NamedTuple):
    """The drivers of a simulated machine.

    ``set_faults``: set the faults of its hardware, such as ``gpu-3=gone,gpu-0=xid-79``. ``set_gates``: set the driver's
    feature gates, such as ``MPSSupport=false``. Both raise ValueError. ``close``: release the machine. ``programs``:
    other programs of the vendor, such as controllers.
    """

    drivers: tuple[Driver, ...]
    set_faults: Callable[[str], None]
    close: Callable[[], None]
    programs: tuple[Program, ...] = ()
    set_gates: Callable[[str], None] = reject_gates


def simulated_drivers(machine: FleetMachine, compute: ComputeServer) -> MachineDrivers:
    """Return the drivers of a machine over simulated hardware, whose programs run on ``compute``."""
    return _SIMULATED[machine.hardware.accelerator.vendor](machine, compute)


def _simulated_nvidia(machine: FleetMachine, compute: ComputeServer) -> MachineDrivers:
    assert isinstance(machine.mode, NvidiaMode), "modes are checked against the hardware"
    gpus = gpus_of(machine.hardware, machine.node, machine.mode)
    fixed_mig = fixed_mig_devices(gpus, machine.node, machine.mode)
    hardware = SimulatedHardware(gpus, fixed_mig=fixed_mig, name=machine.node, address=compute.address)
    compute.attach(hardware.share, hardware.running)
    driver = NvidiaDriver(hardware, machine.mode)

    def set_gates(text: str) -> None:
        driver.gates = parse_feature_gates(text)

    return MachineDrivers(
        (driver,), DeclaredFaults(hardware).apply, lambda: compute.detach(hardware.share), set_gates=set_gates
    )


def _simulated_amd(machine: FleetMachine, compute: ComputeServer) -> MachineDrivers:
    hardware = SimulatedAmd(machine)
    return MachineDrivers((_amd(machine, hardware),), hardware.set_faults, lambda: None)


def _amd(machine: FleetMachine, hardware: SimulatedAmd) -> AmdDriver:
    mode = machine.mode
    vocabulary = mode.vocabulary if isinstance(mode, Partitioned) else "v1"
    auto, guests = isinstance(mode, AutoPartition), isinstance(mode, VirtualMachines)
    return AmdDriver(hardware, machine.node, auto_partition=auto, guests=guests, vocabulary=vocabulary)


def _simulated_example(machine: FleetMachine, compute: ComputeServer) -> MachineDrivers:
    mode = machine.mode
    assert isinstance(mode, ExampleMode), "modes are checked against the hardware"
    drivers: list[ExampleDriver] = [ExampleGpus(machine.node, len(machine.hardware.slots), mode)]
    if mode.nics:
        drivers.append(ExampleNics(machine.node, mode.nics))
    if mode.numa:
        drivers.append(ExampleCpus(machine.node, mode.numa))

    def set_faults(text: str) -> None:
        faults = parse_faults(text, frozenset().union(*(driver.devices for driver in drivers)))
        for driver in drivers:
            driver.set_faults(faults)

    programs = (controller(GPU_DRIVER, machine.node),) if mode.binding else ()
    return MachineDrivers(tuple(drivers), set_faults, lambda: None, programs)


_SIMULATED: Final[Mapping[str, Callable[[FleetMachine, ComputeServer], MachineDrivers]]] = {
    "amd": _simulated_amd, "example": _simulated_example, "nvidia": _simulated_nvidia
}  # fmt: skip

# --- simulated, for a real kubelet ------------------------------------------------------------------------------------


def host_simulation(machine: FleetMachine, state: Path) -> Driver:
    """Return the driver of a vendor's GPUs over a simulation on this host. ``state``: the folder with its state.

    Raises OSError.
    """
    return SimulatedHardwareDriver(_HOST_SIMULATIONS[machine.hardware.accelerator.vendor](machine, state), machine.form)


def _host_simulation_nvidia(machine: FleetMachine, state: Path) -> Driver:
    assert isinstance(machine.mode, NvidiaMode), "modes are checked against the hardware"
    gpus = gpus_of(machine.hardware, machine.node, machine.mode)
    fixed_mig = fixed_mig_devices(gpus, machine.node, machine.mode)
    return NvidiaDriver(SimulatedHardware(gpus, state, fixed_mig=fixed_mig, name=machine.node), machine.mode)


def _host_simulation_amd(machine: FleetMachine, state: Path) -> Driver:
    return _amd(machine, SimulatedAmd(machine, state))


_HOST_SIMULATIONS: Final[Mapping[str, Callable[[FleetMachine, Path], Driver]]] = {
    "amd": _host_simulation_amd, "nvidia": _host_simulation_nvidia
}  # fmt: skip

# --- hardware of the host ---------------------------------------------------------------------------------------------


class HostDriver(NamedTuple):
    """A driver over the hardware of this machine. ``modes``: the possible driver modes.

    ``create``: takes the node, the mode, and the root of the vendor's files, as seen by this process and (if different)
    by the host. Raises FleetError for an unknown mode.
    """

    modes: tuple[str, ...]
    create: Callable[[str, str, Path, Path | None], Driver]


def _host_nvidia(node: str, text: str, root: Path, on_host: Path | None) -> Driver:
    mode = nvidia_mode(text)
    if mode is None:
        raise FleetError(f"mode {text!r}: expected one of {', '.join(HOST_DRIVERS['nvidia'].modes)}")
    return NvidiaDriver(HostHardware(Roots(driver=root, driver_on_host=on_host)), mode)


def _host_amd(node: str, text: str, root: Path, on_host: Path | None) -> Driver:
    name, _, version = text.partition("@")
    if name not in ("", "auto", "vfio") or version not in ("", "v0", "v1"):
        raise FleetError(f"mode {text!r}: expected one of {', '.join(HOST_DRIVERS['amd'].modes)}")
    hardware = KernelHardware(HostFiles(root), Clock())
    vocabulary: Vocabulary = "v0" if version == "v0" else "v1"
    return AmdDriver(hardware, node, auto_partition=name == "auto", guests=name == "vfio", vocabulary=vocabulary)


#: By vendor.
HOST_DRIVERS: Final[Mapping[str, HostDriver]] = {
    "amd": HostDriver(("@v1", "@v0", "auto", "vfio"), _host_amd),
    "nvidia": HostDriver(("full", "dynamic-mig", "shared", "consumable-shares=N", "vfio"), _host_nvidia),
}
