"""Which drivers a simulated machine gets: a line per vendor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from allotment.drivers.amd.driver import AmdDriver
from allotment.drivers.amd.simulated import Simulated as SimulatedAmd
from allotment.drivers.driver import Driver
from allotment.drivers.nvidia.driver import NvidiaDriver
from allotment.drivers.nvidia.simulated import SimulatedHardware
from allotment.drivers.nvidia.simulated_breaking import Breaking
from allotment.drivers.nvidia.simulated_compute import Compute
from allotment.fleet import Machine
from allotment.fleet.modes import AutoPartition, Partitioned
from allotment.fleet.nvidia import gpus_of, made_of


class Fitted(NamedTuple):
    """The drivers of one machine.

    ``break_down``: what of its hardware is broken from now on, such as ``gpu-3=gone,gpu-0=xid-79``; raises ValueError.
    ``end``: it is not needed any more.
    """

    drivers: tuple[Driver, ...]
    break_down: Callable[[str], None]
    end: Callable[[], None]


def fit(machine: Machine, compute: Compute) -> Fitted:
    """Drivers over simulated hardware, on which programs compute as fast as ``compute`` lets them."""
    return _VENDORS[machine.hardware.accelerator.vendor](machine, compute)


def _nvidia(machine: Machine, compute: Compute) -> Fitted:
    assert not isinstance(machine.mode, Partitioned | AutoPartition), "modes are checked against the hardware"
    gpus = gpus_of(machine.hardware, machine.node, machine.mode)
    made = made_of(gpus, machine.node, machine.mode)
    hardware = SimulatedHardware(gpus, made=made, name=machine.node, address=compute.address)
    compute.attach(hardware.share)
    return Fitted(
        (NvidiaDriver(hardware, machine.mode),), Breaking(hardware).apply, lambda: compute.detach(hardware.share)
    )


def _amd(machine: Machine, compute: Compute) -> Fitted:
    mode = machine.mode
    vocabulary = mode.vocabulary if isinstance(mode, Partitioned) else "v1"
    hardware = SimulatedAmd(machine)
    driver = AmdDriver(hardware, machine.node, auto=isinstance(mode, AutoPartition), vocabulary=vocabulary)
    return Fitted((driver,), hardware.break_down, lambda: None)


_VENDORS: Final[Mapping[str, Callable[[Machine, Compute], Fitted]]] = {"amd": _amd, "nvidia": _nvidia}
