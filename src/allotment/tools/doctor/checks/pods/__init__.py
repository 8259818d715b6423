"""Pods that do not run, or not as they should."""

from __future__ import annotations

from typing import Final

from allotment.tools.doctor.check import Check
from allotment.tools.doctor.checks.pods import names_nothing, scheduler_bypassed, waiting_for_devices

PODS: Final[tuple[Check, ...]] = (scheduler_bypassed.CHECK, waiting_for_devices.CHECK, names_nothing.CHECK)
