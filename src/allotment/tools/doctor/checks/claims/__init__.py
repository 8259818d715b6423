"""Claims, and what they hold."""

from __future__ import annotations

from typing import Final

from allotment.tools.doctor.check import Check
from allotment.tools.doctor.checks.claims import device_gone, device_twice, reserved_by_nobody, reserved_for_gone

CLAIMS: Final[tuple[Check, ...]] = (
    device_twice.CHECK,
    device_gone.CHECK,
    reserved_by_nobody.CHECK,
    reserved_for_gone.CHECK,
)
