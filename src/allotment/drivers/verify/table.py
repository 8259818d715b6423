"""All checks, in the order in which they are made: what needs no device first, what ends the driver last."""

from __future__ import annotations

from typing import Final

from allotment.drivers.verify import health, introducing, preparing, publishing, refusing, restarting, together, undoing
from allotment.drivers.verify.check import Check

CHECKS: Final[tuple[Check, ...]] = (
    *introducing.CHECKS,
    *publishing.CHECKS,
    *preparing.CHECKS,
    *undoing.CHECKS,
    *refusing.CHECKS,
    *together.CHECKS,
    *health.CHECKS,
    *restarting.CHECKS,
)
