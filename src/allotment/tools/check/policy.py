"""Checks a bundle with the selected rules, without findings that files or comments ignore."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from allotment.tools.check.bundle import Bundle
from allotment.tools.check.catalog import bundle_rules
from allotment.tools.check.run import check
from allotment.tools.check.selection import RuleSelection, pattern_matches
from allotment.tools.check.suppressions import SuppressionResult, apply_suppressions

#: The family of rules that match only if a cluster is given.
_SIMULATION_FAMILY: Final = "proof"


def _no_ignores(file: str) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class CheckPolicy:
    """Which rules apply: those of ``selection``, less the patterns that ``ignores_for`` returns for a file."""

    selection: RuleSelection = field(default_factory=RuleSelection)
    ignores_for: Callable[[str], tuple[str, ...]] = _no_ignores

    @property
    def runs_simulation(self) -> bool:
        """Whether allocation is simulated if a cluster is given."""
        return any(rule.family == _SIMULATION_FAMILY and self.selection.includes(rule.code) for rule in bundle_rules())

    def evaluate(self, bundle: Bundle, sources: Mapping[str, str], *, for_fixing: bool = False) -> SuppressionResult:
        """All findings of a bundle. ``sources`` are the texts of its files.

        With ``for_fixing``, only rules with fixes run: the simulation is the slowest part and fixes nothing.
        """
        skipped = {
            rule.code
            for rule in bundle_rules()
            if (for_fixing and not rule.fixable) or (rule.family == _SIMULATION_FAMILY and bundle.cluster is None)
        }
        ignored = {file: self.ignores_for(file) for file in sources}

        def is_evaluated(code: str, file: str) -> bool:
            return (
                self.selection.includes(code)
                and code not in skipped
                and not any(pattern_matches(w, code) for w in ignored.get(file, ()))
            )

        findings = [
            finding
            for finding in check(
                bundle, [rule for rule in self.selection.filter(bundle_rules()) if rule.code not in skipped]
            )
            if is_evaluated(finding.code, finding.where.file)
        ]

        return apply_suppressions(findings, sources, is_evaluated)
