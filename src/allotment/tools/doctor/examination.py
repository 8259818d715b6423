"""Holds what was found against the checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.tools.doctor.check import Check
from allotment.tools.doctor.checks import CHECKS
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.finding import Finding
from allotment.tools.doctor.snapshot import Found

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


def needs_second_look(findings: Iterable[Finding], checks: Iterable[Check] = CHECKS) -> bool:
    """Whether any of them may be of a moment only."""
    fleeting = {check.code for check in checks if check.fleeting}
    return any(finding.code in fleeting for finding in findings)


def confirmed(
    first: Iterable[Finding], second: Iterable[Finding], checks: Iterable[Check] = CHECKS
) -> tuple[Finding, ...]:
    """The findings of a second look, without what a moment before was true of other objects only."""
    fleeting = {check.code for check in checks if check.fleeting}
    seen = {(finding.code, name) for finding in first for name in finding.objects}
    return tuple(
        finding
        for finding in second
        if finding.code not in fleeting or any((finding.code, name) in seen for name in finding.objects)
    )


def _order(finding: Finding) -> tuple[int, str, str]:
    return SEVERITIES.index(finding.severity), finding.code, finding.subject
