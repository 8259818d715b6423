"""All checks in order: those without devices first, those that stop the driver last."""

from __future__ import annotations

from typing import Final

from allotment.drivers.verify import (
    concurrency,
    health,
    prepare,
    publishing,
    registration,
    rejections,
    restarts,
    unprepare,
)
from allotment.drivers.verify.check import DriverCheck

CHECKS: Final[tuple[DriverCheck, ...]] = (
    *registration.CHECKS,
    *publishing.CHECKS,
    *prepare.CHECKS,
    *unprepare.CHECKS,
    *rejections.CHECKS,
    *concurrency.CHECKS,
    *health.CHECKS,
    *restarts.CHECKS,
)
