"""Simulated devices of Kubernetes' example driver, for trying the features of the device API."""

from __future__ import annotations

from allotment.fleet.example.cpus import CPU_DRIVER, cpu_groups
from allotment.fleet.example.gpus import GPU_DRIVER, gpu_offering
from allotment.fleet.example.nics import NET_DRIVER, nic_groups
from allotment.fleet.modes import ExampleMode
from allotment.model.resource import CounterSet, Device

__all__ = ["CPU_DRIVER", "GPU_DRIVER", "NET_DRIVER", "cpu_groups", "gpu_offering", "nic_groups", "offerings"]

Groups = tuple[tuple[Device, ...], ...]


def offerings(node: str, gpus: int, mode: ExampleMode) -> tuple[tuple[str, Groups, tuple[CounterSet, ...]], ...]:
    """Return drivers, devices and counter sets of a node: GPUs, and the mode's network cards and processors."""
    found = [(GPU_DRIVER, *gpu_offering(node, gpus, mode))]
    if mode.nics:
        found.append((NET_DRIVER, nic_groups(node, mode.nics), ()))
    if mode.numa:
        found.append((CPU_DRIVER, cpu_groups(mode.numa), ()))
    return tuple(found)
