"""Which drivers a node gets, a line per vendor: over its own hardware, or over a simulation of some other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from allotment.cluster.clock import Clock
from allotment.cluster.program import Program
from allotment.drivers.amd.driver import AmdDriver
from allotment.drivers.amd.kernel import Kernel
from allotment.drivers.amd.kernel_files import Folder
from allotment.drivers.amd.simulated.hardware import Simulated as SimulatedAmd
from allotment.drivers.driver import Driver
from allotment.drivers.example import ExampleCpus, ExampleGpus, ExampleNics
from allotment.drivers.example.base_driver import Imaginary, faults
from allotment.drivers.example.binding_conditions import controller
from allotment.drivers.nvidia.config import gates_of
from allotment.drivers.nvidia.driver import NvidiaDriver
from allotment.drivers.nvidia.host.hardware import HostHardware
from allotment.drivers.nvidia.host.roots import Roots
from allotment.drivers.nvidia.simulated.compute_server import Compute
from allotment.drivers.nvidia.simulated.declared_faults import Breaking
from allotment.drivers.nvidia.simulated.hardware import SimulatedHardware
from allotment.drivers.simulation import Pretending
from allotment.fleet import FleetError, Machine
from allotment.fleet.amd import DRIVER as AMD_DRIVER
from allotment.fleet.example import CPU_DRIVER, GPU_DRIVER, NET_DRIVER
from allotment.fleet.modes import (
    AutoPartition,
    Example,
    NvidiaMode,
    Partitioned,
    VirtualMachines,
    Vocabulary,
    nvidia_mode,
)
from allotment.fleet.nvidia import COMPUTE_DOMAIN_DRIVER, gpus_of, made_of
from allotment.fleet.nvidia import DRIVER as NVIDIA_DRIVER

#: The drivers that a machine may have, by the vendor of its devices.
DRIVERS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "amd": (AMD_DRIVER,),
    "example": (GPU_DRIVER, NET_DRIVER, CPU_DRIVER),
    "nvidia": (NVIDIA_DRIVER, COMPUTE_DOMAIN_DRIVER),
}

# --- simulated --------------------------------------------------------------------------------------------------------


def no_gates(text: str) -> None:
    """The feature gates of a driver that has none. Raises ValueError."""
    if text:
        raise ValueError(f"this node's driver has no feature gates, found {text!r}")


class Fitted(NamedTuple):
    """The drivers of one machine.

    ``break_down``: what of its hardware is broken from now on, such as ``gpu-3=gone,gpu-0=xid-79``. ``switch``: the
    driver's feature gates from now on, such as ``MPSSupport=false``. Both raise ValueError. ``end``: it is not needed
    any more. ``beside``: programs of the vendor that work on the machine's claims, too.
    """

    drivers: tuple[Driver, ...]
    break_down: Callable[[str], None]
    end: Callable[[], None]
    beside: tuple[Program, ...] = ()
    switch: Callable[[str], None] = no_gates


def simulated(machine: Machine, compute: Compute) -> Fitted:
    """Drivers over simulated hardware, on which programs compute as fast as ``compute`` lets them."""
    return _SIMULATED[machine.hardware.accelerator.vendor](machine, compute)


def _simulated_nvidia(machine: Machine, compute: Compute) -> Fitted:
    assert isinstance(machine.mode, NvidiaMode), "modes are checked against the hardware"
    gpus = gpus_of(machine.hardware, machine.node, machine.mode)
    made = made_of(gpus, machine.node, machine.mode)
    hardware = SimulatedHardware(gpus, made=made, name=machine.node, address=compute.address)
    compute.attach(hardware.share, hardware.running)
    driver = NvidiaDriver(hardware, machine.mode)

    def switch(text: str) -> None:
        driver.gates = gates_of(text)

    return Fitted((driver,), Breaking(hardware).apply, lambda: compute.detach(hardware.share), switch=switch)


def _simulated_amd(machine: Machine, compute: Compute) -> Fitted:
    hardware = SimulatedAmd(machine)
    return Fitted((_amd(machine, hardware),), hardware.break_down, lambda: None)


def _amd(machine: Machine, hardware: SimulatedAmd) -> AmdDriver:
    mode = machine.mode
    vocabulary = mode.vocabulary if isinstance(mode, Partitioned) else "v1"
    auto, guests = isinstance(mode, AutoPartition), isinstance(mode, VirtualMachines)
    return AmdDriver(hardware, machine.node, auto=auto, guests=guests, vocabulary=vocabulary)


def _simulated_example(machine: Machine, compute: Compute) -> Fitted:
    mode = machine.mode
    assert isinstance(mode, Example), "modes are checked against the hardware"
    drivers: list[Imaginary] = [ExampleGpus(machine.node, len(machine.hardware.slots), mode)]
    if mode.nics:
        drivers.append(ExampleNics(machine.node, mode.nics))
    if mode.numa:
        drivers.append(ExampleCpus(machine.node, mode.numa))

    def break_down(text: str) -> None:
        broken = faults(text, frozenset().union(*(driver.devices for driver in drivers)))
        for driver in drivers:
            driver.break_down(broken)

    beside = (controller(GPU_DRIVER, machine.node),) if mode.binding else ()
    return Fitted(tuple(drivers), break_down, lambda: None, beside)


_SIMULATED: Final[Mapping[str, Callable[[Machine, Compute], Fitted]]] = {
    "amd": _simulated_amd, "example": _simulated_example, "nvidia": _simulated_nvidia
}  # fmt: skip

# --- simulated, for a kubelet that is not -----------------------------------------------------------------------------


def pretended(machine: Machine, state: Path) -> Driver:
    """The driver of a vendor's GPUs over a simulation of them, on a host without. ``state``: a folder that keeps it.

    Raises OSError.
    """
    return Pretending(_PRETENDED[machine.hardware.accelerator.vendor](machine, state), machine.form)


def _pretended_nvidia(machine: Machine, state: Path) -> Driver:
    assert isinstance(machine.mode, NvidiaMode), "modes are checked against the hardware"
    gpus = gpus_of(machine.hardware, machine.node, machine.mode)
    made = made_of(gpus, machine.node, machine.mode)
    return NvidiaDriver(SimulatedHardware(gpus, state, made=made, name=machine.node), machine.mode)


def _pretended_amd(machine: Machine, state: Path) -> Driver:
    return _amd(machine, SimulatedAmd(machine, state))


_PRETENDED: Final[Mapping[str, Callable[[Machine, Path], Driver]]] = {
    "amd": _pretended_amd, "nvidia": _pretended_nvidia
}  # fmt: skip

# --- on a host's own hardware -----------------------------------------------------------------------------------------


class OnHost(NamedTuple):
    """A driver over the hardware of the machine that it runs on. ``modes``: what may be said of how it publishes.

    ``make``: of node, mode, and the root of the vendor's files, as this process sees it and (if not the same) the host.
    Raises FleetError for a mode that is none.
    """

    modes: tuple[str, ...]
    make: Callable[[str, str, Path, Path | None], Driver]


def _host_nvidia(node: str, text: str, root: Path, on_host: Path | None) -> Driver:
    mode = nvidia_mode(text)
    if mode is None:
        raise FleetError(f"mode {text!r}: wanted one of {', '.join(ON_HOST['nvidia'].modes)}")
    return NvidiaDriver(HostHardware(Roots(driver=root, driver_on_host=on_host)), mode)


def _host_amd(node: str, text: str, root: Path, on_host: Path | None) -> Driver:
    name, _, version = text.partition("@")
    if name not in ("", "auto", "vfio") or version not in ("", "v0", "v1"):
        raise FleetError(f"mode {text!r}: wanted one of {', '.join(ON_HOST['amd'].modes)}")
    hardware = Kernel(Folder(root), Clock())
    vocabulary: Vocabulary = "v0" if version == "v0" else "v1"
    return AmdDriver(hardware, node, auto=name == "auto", guests=name == "vfio", vocabulary=vocabulary)


#: By vendor.
ON_HOST: Final[Mapping[str, OnHost]] = {
    "amd": OnHost(("@v1", "@v0", "auto", "vfio"), _host_amd),
    "nvidia": OnHost(("full", "dynamic-mig", "shared", "consumable-shares=N", "vfio"), _host_nvidia),
}
