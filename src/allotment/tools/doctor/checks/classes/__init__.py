"""Checks of DeviceClasses."""

from __future__ import annotations

from typing import Final

from allotment.tools.doctor.check import ClusterCheck
from allotment.tools.doctor.checks.classes import (
    class_missing,
    driver_without_class,
    same_extended_resource,
    selector_fails,
    selects_nothing,
)

CLASSES: Final[tuple[ClusterCheck, ...]] = (
    driver_without_class.CHECK,
    selects_nothing.CHECK,
    selector_fails.CHECK,
    same_extended_resource.CHECK,
    class_missing.CHECK,
)
