"""What a machine's mode makes of its GPUs."""

from __future__ import annotations

from allotment.fleet.amd import auto
from allotment.fleet.amd.devices import devices_of_gpus
from allotment.fleet.amd.gpu import gpus_of
from allotment.fleet.hardware import Hardware
from allotment.fleet.modes import AmdMode, Partitioned


def offering_of(machine: Hardware, node: str, mode: AmdMode) -> auto.Offering:
    """The devices of a machine from its profile."""
    gpus = gpus_of(machine, node, mode)
    if isinstance(mode, Partitioned):
        return auto.Offering((devices_of_gpus(gpus, mode.vocabulary),), ())
    return auto.offering(dict(enumerate(gpus)))
