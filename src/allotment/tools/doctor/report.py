"""The report about a cluster: findings, and what could not be checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from allotment.tools.doctor.check import ClusterCheck
from allotment.tools.doctor.examination import SEVERITIES, skipped_checks, verdict
from allotment.tools.doctor.finding import ClusterFinding
from allotment.tools.doctor.snapshot import ClusterSnapshot
from allotment.tools.unread import NOT_SERVED, unread_resources


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """The problems of a cluster, the most severe first.

    ``snapshot``: the examined objects. ``checks``: those that were selected. ``notes``: about reading the cluster.
    """

    snapshot: ClusterSnapshot
    findings: Sequence[ClusterFinding]
    checks: Sequence[ClusterCheck]
    notes: Sequence[str] = ()

    @property
    def has_errors(self) -> bool:
        """Whether a finding is an error."""
        return any(finding.severity == "error" for finding in self.findings)

    @property
    def verdict(self) -> str:
        """The summary in one sentence."""
        return verdict(self.snapshot, self.findings)

    @property
    def skipped(self) -> tuple[ClusterCheck, ...]:
        """The checks that were skipped because the objects that they need could not be read."""
        return skipped_checks(self.snapshot, self.checks)

    @property
    def not_served(self) -> dict[str, str]:
        """The resources that would matter but are not served, with the reason."""
        return {name: why for name, why in unread_resources(self.snapshot.values).items() if why == NOT_SERVED}

    @property
    def next(self) -> str:
        """The first command of the remedy of the most severe problem that has one; empty without problems."""
        problems = (finding for finding in self.findings if finding.severity != "note")
        lines = (line for finding in problems for line in finding.remedy.splitlines())
        return next((line.removeprefix("$ ") for line in lines if line.startswith("$ ")), "")

    def to_dict(self) -> dict[str, Any]:
        """Return what ``-o json`` prints."""
        return {
            "verdict": self.verdict,
            "counts": {
                severity: sum(finding.severity == severity for finding in self.findings) for severity in SEVERITIES
            },
            "findings": [{**finding._asdict(), "objects": list(finding.objects)} for finding in self.findings],
            "notLookedAt": dict(self.snapshot.unread),
            "notServed": list(self.not_served),
            "skipped": [check.code for check in self.skipped],
            "notes": list(self.notes),
            **({"next": self.next} if self.next else {}),
        }
