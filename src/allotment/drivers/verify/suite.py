"""All checks, in the order in which they are made: what needs no device first, what ends the driver last."""

from __future__ import annotations

from typing import Final

from allotment.drivers.verify import (
    concurrency,
    health,
    prepare,
    publishing,
    refusals,
    registration,
    restarts,
    unprepare,
)
from allotment.drivers.verify.check import DriverCheck

CHECKS: Final[tuple[DriverCheck, ...]] = (
    *registration.CHECKS,
    *publishing.CHECKS,
    *prepare.CHECKS,
    *unprepare.CHECKS,
    *refusals.CHECKS,
    *concurrency.CHECKS,
    *health.CHECKS,
    *restarts.CHECKS,
)
