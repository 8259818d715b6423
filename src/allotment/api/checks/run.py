"""A check of manifests that were read, with or without fixes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from msgspec.structs import replace as replace_fields

from allotment.api.checks.fixed_texts import fixed_by
from allotment.api.checks.next_step import CheckCommand, next_command
from allotment.api.checks.options import CheckOptions
from allotment.api.manifest_files import ManifestFiles
from allotment.model.meta import Object
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.finding import Finding
from allotment.tools.check.fixer import FixResult
from allotment.tools.check.report import CheckReport
from allotment.tools.check.suppressions import SuppressionResult

#: Maximum number of documents for which known hardware is suggested.
_MOST_TRIED: Final = 50


@dataclass(frozen=True, slots=True)
class CheckRun:
    """The input of a check. ``command``: the same check as a command line."""

    options: CheckOptions
    files: ManifestFiles
    bundle: Bundle
    command: CheckCommand

    @classmethod
    def of(cls, options: CheckOptions, files: ManifestFiles, command: CheckCommand) -> CheckRun:
        """Return the check of files."""
        bundle = Bundle(files.documents, options.settings, options.world, files.problems, options.namespace)
        return cls(options, files, bundle, command)

    def report(self) -> CheckReport:
        """Return the report, without the next command."""
        result = self.options.policy.evaluate(self.bundle, self.files.sources)
        bundle, options, files = self.bundle, self.options, self.files
        has_requests = bool(bundle.claims or bundle.pods)
        proven = options.policy.runs_simulation and has_requests and options.world is not None
        # A rule that explains why a claim gets no device replaces the finding of the simulation.
        unproven = any(
            finding.code.startswith("P") or finding.level == "error"
            for finding in (*result.findings, *result.suppressed)
        )
        searched = has_requests and options.world is None
        hardware, without_rules = _hardware(bundle, result) if searched else ("", False)
        return CheckReport(
            result.findings,
            files.sources,
            objects=len(bundle.documents),
            silenced=len(result.suppressed),
            templates=tuple(files.templates),
            patches=tuple(files.patches),
            place=options.place,
            fits=proven and not unproven and not bundle.problems,
            hardware=hardware,
            hardware_without_rules=without_rules,
            unread=options.unread,
            notes=options.notes,
            fail_on=options.fail_on,
        )

    def fixed(self, unsafe: bool) -> tuple[CheckRun, CheckReport]:
        """Return the check of the fixed texts, and its report without the next command."""
        fixed = fixed_by(self.options, self.files, self.bundle, unsafe)
        changed = {file: text for file, text in fixed.texts.items() if text != self.files.sources[file]}
        files, bundle = self.files.with_texts(changed), self.bundle
        rest = Bundle(
            files.documents, bundle.settings, bundle.cluster, files.problems, bundle.namespace, bundle.admitted
        )
        after = replace(self, files=files, bundle=rest)
        report = after.report()
        findings = tuple(_by_hand(report.findings, fixed))
        applied = tuple(sorted(fixed.applied, key=lambda finding: finding.sort_key))
        return after, replace(report, findings=findings, fixed=applied, texts=changed)

    def with_next(self, report: CheckReport) -> CheckReport:
        """Return the report of this check with the next command."""
        step = next_command(self.command, self.options, self.files, self.bundle, report.findings)
        return replace(report, next=step)


def _hardware(bundle: Bundle, result: SuppressionResult) -> tuple[str, bool]:
    """Return known hardware on which the objects fit, and whether only without the rules of the pods for nodes.

    It is searched only for few documents, because many rarely share a cluster.
    """
    if len(bundle.documents) > _MOST_TRIED or any(finding.level == "error" for finding in result.findings):
        return "", False
    from allotment.tools.check.hardware.smallest_fleet import smallest_fleet, without_node_rules

    values = [manifest.value for manifest in bundle.manifests.values() if isinstance(manifest.value, Object)]
    if found := smallest_fleet(values, bundle.features):
        return found, False
    without = without_node_rules(values)
    found = smallest_fleet(without, bundle.features) if without is not None else None
    return found or "", bool(found)


def _by_hand(findings: Iterable[Finding], fixed: FixResult) -> Iterator[Finding]:
    """Yield the findings; those whose fix failed have a hint to fix it by hand instead, with the reason."""
    reasons = {_known_by(finding): reason for finding, reason in fixed.unfixable}
    for finding in findings:
        reason = reasons.get(_known_by(finding))
        if reason is not None and finding.fix is not None:
            words = f"{finding.fix.text} by hand: {reason}"
            finding = replace_fields(finding, fix=None, help="; ".join(filter(None, (finding.help, words))))
        yield finding


def _known_by(finding: Finding) -> tuple[str, ...]:
    """Return the identity of a finding, independent of line numbers."""
    return finding.code, finding.where.file, finding.subject, finding.path, finding.message
