"""Runs the checks on a cluster snapshot, and sorts, limits and confirms their findings."""

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
    """A summary in one sentence; unreadable resources are not counted.

    >>> from allotment.model.features import Features
    >>> verdict(ClusterSnapshot(Features(kube="1.36")), [])
    'No problems found in 0 nodes, 0 devices, 0 claims and 0 pods.'
    """
    of = Counter(type(value) for value in found.values)
    devices = sum(len(value.spec.devices or ()) for value in found.values if isinstance(value, ResourceSlice))
    seen = {
        "nodes": counted(of[Node], "node"), "resourceslices": counted(devices, "device"),
        "resourceclaims": counted(of[ResourceClaim], "claim"), "pods": counted(of[Pod], "pod"),
    }  # fmt: skip
    size = listed(words for kind, words in seen.items() if kind not in found.unread)
    where = f" in {size}" if size else ", but hardly anything could be checked"
    if not findings:
        return f"No problems found{where}."
    bad = Counter(finding.severity for finding in findings)
    return f"{listed(counted(bad[severity], severity) for severity in SEVERITIES if bad[severity])}{where}."


#: Maximum number of findings of one check and severity.
MAX_FINDINGS_PER_CHECK: Final = 5


def limit_findings(findings: Iterable[ClusterFinding]) -> Iterator[ClusterFinding]:
    """Findings sorted as by `run_checks`; more than the maximum of a check are combined into one."""
    for (code, severity), group in groupby(findings, lambda finding: (finding.code, finding.severity)):
        of_check = list(group)
        if len(of_check) <= MAX_FINDINGS_PER_CHECK:
            yield from of_check
            continue
        yield from of_check[: MAX_FINDINGS_PER_CHECK - 1]
        rest = of_check[MAX_FINDINGS_PER_CHECK - 1 :]
        names = [finding.subject for finding in rest]
        objects = tuple(name for finding in rest for name in finding.objects)
        yield ClusterFinding(
            code, severity, f"{len(rest)} more", f"the same problem affects {first_few(names)}",
            f"To list all of them:\n$ allot doctor --select {code} -o wide", objects,
        )  # fmt: skip


#: Severities, the worst first.
SEVERITIES: Final = ("error", "warning", "note")


def run_checks(found: ClusterSnapshot, checks: Iterable[ClusterCheck] = CHECKS) -> tuple[ClusterFinding, ...]:
    """The findings of all checks, the worst first. Checks whose objects could not be read are skipped."""
    cluster = ClusterIndex(found)
    signs = (
        ClusterFinding(
            check.code, sign.severity or check.severity, sign.subject, sign.evidence, sign.remedy, sign.objects
        )
        for check in checks
        if not any(kind in found.unread for kind in check.needs)
        for sign in check.find(cluster)
    )
    return tuple(sorted(signs, key=_order))


def skipped_checks(found: ClusterSnapshot, checks: Iterable[ClusterCheck] = CHECKS) -> tuple[ClusterCheck, ...]:
    """Checks that were skipped because required objects could not be read."""
    return tuple(check for check in checks if any(kind in found.unread for kind in check.needs))


def needs_confirmation(findings: Iterable[ClusterFinding], checks: Iterable[ClusterCheck] = CHECKS) -> bool:
    """Whether any of the findings may be transient."""
    transient = {check.code for check in checks if check.transient}
    return any(finding.code in transient for finding in findings)


def confirmed(
    first: Iterable[ClusterFinding], second: Iterable[ClusterFinding], checks: Iterable[ClusterCheck] = CHECKS
) -> tuple[ClusterFinding, ...]:
    """The findings of a second run, without transient ones that the first run did not report for any of the objects."""
    transient = {check.code for check in checks if check.transient}
    seen = {(finding.code, name) for finding in first for name in finding.objects}
    return tuple(
        finding
        for finding in second
        if finding.code not in transient or any((finding.code, name) in seen for name in finding.objects)
    )


def _order(finding: ClusterFinding) -> tuple[int, str, str]:
    return SEVERITIES.index(finding.severity), finding.code, finding.subject
