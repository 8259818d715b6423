"""Nodes, and the drivers that should run there."""

from __future__ import annotations

from typing import Final

from allotment.tools.doctor.check import Check
from allotment.tools.doctor.checks.nodes import (
    device_plugin_too,
    gpu_without_driver,
    slices_of_gone_nodes,
    slices_of_unready_nodes,
)

NODES: Final[tuple[Check, ...]] = (
    gpu_without_driver.CHECK,
    slices_of_gone_nodes.CHECK,
    slices_of_unready_nodes.CHECK,
    device_plugin_too.CHECK,
)
