"""Checks of nodes and their drivers."""

from __future__ import annotations

from typing import Final

from allotment.tools.doctor.check import ClusterCheck
from allotment.tools.doctor.checks.nodes import (
    device_plugin_too,
    driver_pods,
    gpu_without_driver,
    orphaned_slices,
    prepare_fails,
    same_gpu_twice,
    simulated_devices,
    slices_of_unready_nodes,
    two_drivers,
)

NODES: Final[tuple[ClusterCheck, ...]] = (
    gpu_without_driver.CHECK,
    driver_pods.CHECK,
    orphaned_slices.CHECK,
    slices_of_unready_nodes.CHECK,
    prepare_fails.CHECK,
    device_plugin_too.CHECK,
    same_gpu_twice.CHECK,
    two_drivers.CHECK,
    simulated_devices.CHECK,
)
