"""Holds what was found against the checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.tools.doctor.case import Case
from allotment.tools.doctor.check import Check
from allotment.tools.doctor.checks import CHECKS
from allotment.tools.doctor.finding import Finding
from allotment.tools.doctor.found import Found

#: The worst first.
SEVERITIES: Final = ("error", "warning", "note")


def examine(found: Found, checks: Iterable[Check] = CHECKS) -> tuple[Finding, ...]:
    """Everything that the checks find, the worst first. A check whose objects could not be read finds nothing."""
    case = Case(found)
    signs = (
        Finding(check.code, sign.severity or check.severity, sign.subject, sign.evidence, sign.remedy, sign.objects)
        for check in checks
        if not any(kind in found.unread for kind in check.needs)
        for sign in check.find(case)
    )
    return tuple(sorted(signs, key=_order))


def skipped(found: Found, checks: Iterable[Check] = CHECKS) -> tuple[Check, ...]:
    """Checks that could not be made, for want of what they need."""
    return tuple(check for check in checks if any(kind in found.unread for kind in check.needs))


def _order(finding: Finding) -> tuple[int, str, str]:
    return SEVERITIES.index(finding.severity), finding.code, finding.subject
