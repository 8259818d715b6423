"""Checks of claims and their allocations."""

from __future__ import annotations

from typing import Final

from allotment.tools.doctor.check import ClusterCheck
from allotment.tools.doctor.checks.claims import (
    binding_conditions,
    contested,
    device_conditions,
    device_gone,
    double_allocation,
    overcommitted,
    owner_gone,
    quota_full,
    stale_reservations,
    stuck_deletion,
    too_many_consumers,
    unknown_consumers,
    unreserved,
)

CLAIMS: Final[tuple[ClusterCheck, ...]] = (
    double_allocation.CHECK,
    overcommitted.CHECK,
    device_gone.CHECK,
    unreserved.CHECK,
    stale_reservations.CHECK,
    unknown_consumers.CHECK,
    stuck_deletion.CHECK,
    owner_gone.CHECK,
    too_many_consumers.CHECK,
    device_conditions.CHECK,
    binding_conditions.CHECK,
    quota_full.CHECK,
    contested.CHECK,
)
