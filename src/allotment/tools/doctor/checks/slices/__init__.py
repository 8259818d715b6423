"""Checks of ResourceSlices and DeviceTaintRules."""

from __future__ import annotations

from typing import Final

from allotment.tools.doctor.check import ClusterCheck
from allotment.tools.doctor.checks.slices import (
    idle_taint_rules,
    incomplete_pools,
    invalid_pools,
    no_devices,
    old_generations,
    tainted_devices,
    taints_not_obeyed,
)

SLICES: Final[tuple[ClusterCheck, ...]] = (
    incomplete_pools.CHECK,
    old_generations.CHECK,
    invalid_pools.CHECK,
    no_devices.CHECK,
    tainted_devices.CHECK,
    idle_taint_rules.CHECK,
    taints_not_obeyed.CHECK,
)
