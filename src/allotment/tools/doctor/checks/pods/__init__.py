"""Checks of pods that do not run, or do not use their devices."""

from __future__ import annotations

from typing import Final

from allotment.tools.doctor.check import ClusterCheck
from allotment.tools.doctor.checks.pods import (
    claim_not_used,
    claims_not_made,
    gated,
    missing_references,
    no_scheduler,
    other_blockers,
    scheduler_bypassed,
    stuck_terminating,
    unhealthy_devices,
    waiting_for_devices,
)

PODS: Final[tuple[ClusterCheck, ...]] = (
    scheduler_bypassed.CHECK,
    waiting_for_devices.CHECK,
    missing_references.CHECK,
    gated.CHECK,
    no_scheduler.CHECK,
    claims_not_made.CHECK,
    unhealthy_devices.CHECK,
    claim_not_used.CHECK,
    stuck_terminating.CHECK,
    other_blockers.CHECK,
)
