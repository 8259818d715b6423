"""Holds what was found against the checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from allotment.model.resource import ResourceClaim, ResourceSlice
from allotment.phrases import counted, first_few, listed
from allotment.tools.doctor.check import ClusterCheck
from allotment.tools.doctor.checks import CHECKS
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.finding import ClusterFinding
from allotment.tools.doctor.objects import Node, Pod
from allotment.tools.doctor.snapshot import ClusterSnapshot


def verdict(found: ClusterSnapshot, findings: Sequence[ClusterFinding]) -> str:
    """One sentence; what could not be read is not counted.

    >>> from allotment.model.features import Features
    >>> verdict(ClusterSnapshot(Features(kube="1.36")), [])
    'Nothing wrong is seen in 0 nodes, 0 devices, 0 claims and 0 pods.'
    """
    of = Counter(type(value) for value in found.values)
    devices = sum(len(value.spec.devices or ()) for value in found.values if isinstance(value, ResourceSlice))
    seen = {
        "nodes": counted(of[Node], "node"), "resourceslices": counted(devices, "device"),
        "resourceclaims": counted(of[ResourceClaim], "claim"), "pods": counted(of[Pod], "pod"),
    }  # fmt: skip
    size = listed(words for kind, words in seen.items() if kind not in found.unread)
    where = f" in {size}" if size else ", and hardly anything could be looked at"
    if not findings:
        return f"Nothing wrong is seen{where}."
    bad = Counter(finding.severity for finding in findings)
    return f"{listed(counted(bad[one], one) for one in SEVERITIES if bad[one])}{where}."


#: Of one check and severity.
MAX_FINDINGS_PER_CHECK: Final = 5


def limit_findings(findings: Iterable[ClusterFinding]) -> Iterator[ClusterFinding]:
    """Findings as sorted by `examine`; those of a check beyond the first few are one."""
    for (code, severity), group in groupby(findings, lambda finding: (finding.code, finding.severity)):
        groups = list(group)
        if len(groups) <= MAX_FINDINGS_PER_CHECK:
            yield from groups
            continue
        yield from groups[: MAX_FINDINGS_PER_CHECK - 1]
        rest = groups[MAX_FINDINGS_PER_CHECK - 1 :]
        names = [finding.subject for finding in rest]
        objects = tuple(name for finding in rest for name in finding.objects)
        yield ClusterFinding(
            code, severity, f"{len(rest)} more", f"the same kind of trouble: {first_few(names)}",
            f"To see them all:\n$ allot doctor --only {code} -o wide", objects,
        )  # fmt: skip


#: The worst first.
SEVERITIES: Final = ("error", "warning", "note")


def run_checks(found: ClusterSnapshot, checks: Iterable[ClusterCheck] = CHECKS) -> tuple[ClusterFinding, ...]:
    """Everything that the checks find, the worst first. A check whose objects could not be read finds nothing."""
    cluster = ClusterIndex(found)
    signs = (
        ClusterFinding(check.code, sign.severity or check.severity, sign.subject, sign.evidence, sign.remedy, sign.objects)
        for check in checks
        if not any(kind in found.unread for kind in check.needs)
        for sign in check.find(cluster)
    )
    return tuple(sorted(signs, key=_order))


def skipped_checks(found: ClusterSnapshot, checks: Iterable[ClusterCheck] = CHECKS) -> tuple[ClusterCheck, ...]:
    """Checks that could not be made, for want of what they need."""
    return tuple(check for check in checks if any(kind in found.unread for kind in check.needs))


def needs_confirmation(findings: Iterable[ClusterFinding], checks: Iterable[ClusterCheck] = CHECKS) -> bool:
    """Whether any of them may be of a moment only."""
    fleeting = {check.code for check in checks if check.transient}
    return any(finding.code in fleeting for finding in findings)


def confirmed(
    first: Iterable[ClusterFinding], second: Iterable[ClusterFinding], checks: Iterable[ClusterCheck] = CHECKS
) -> tuple[ClusterFinding, ...]:
    """The findings of a second look, without what a moment before was true of other objects only."""
    fleeting = {check.code for check in checks if check.transient}
    seen = {(finding.code, name) for finding in first for name in finding.objects}
    return tuple(
        finding
        for finding in second
        if finding.code not in fleeting or any((finding.code, name) in seen for name in finding.objects)
    )


def _order(finding: ClusterFinding) -> tuple[int, str, str]:
    return SEVERITIES.index(finding.severity), finding.code, finding.subject
