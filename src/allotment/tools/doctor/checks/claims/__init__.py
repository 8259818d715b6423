"""Claims, and what they hold."""

from __future__ import annotations

from typing import Final

from allotment.tools.doctor.check import Check
from allotment.tools.doctor.checks.claims import (
    binding_conditions,
    deleting,
    device_gone,
    device_twice,
    overcommitted,
    owner_gone,
    quota_full,
    reserved_by_nobody,
    reserved_for_gone,
    set_aside,
    too_many_consumers,
    unknown_consumers,
    unwell_devices,
)

CLAIMS: Final[tuple[Check, ...]] = (
    device_twice.CHECK,
    overcommitted.CHECK,
    device_gone.CHECK,
    reserved_by_nobody.CHECK,
    reserved_for_gone.CHECK,
    unknown_consumers.CHECK,
    deleting.CHECK,
    owner_gone.CHECK,
    too_many_consumers.CHECK,
    unwell_devices.CHECK,
    binding_conditions.CHECK,
    quota_full.CHECK,
    set_aside.CHECK,
)
