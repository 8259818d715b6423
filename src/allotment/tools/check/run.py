"""Runs rules on a bundle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from allotment.model.loading import InputProblem
from allotment.model.loading.marks import join_path
from allotment.time_limits import check_time
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.finding import Finding, SourceRange
from allotment.tools.check.rule import Rule, RuleMatch
from allotment.tools.check.rules import RULES
from allotment.tools.check.rules.static_rules import STATIC_RULES
from allotment.tools.check.simulation.result import SimulationReport, simulation_report


def check(bundle: Bundle, rules: Iterable[Rule] = RULES) -> tuple[Finding, ...]:
    """All findings of the rules, sorted by position; duplicates are reported once.

    If the rules report the simulation, its tested changes replace guesses of other rules about the same fields.
    """
    table = tuple(rules)
    report = simulation_report(bundle, STATIC_RULES) if any(rule.family == "proof" for rule in table) else None
    unreadable = (_unreadable(problem) for problem in bundle.problems)
    findings = {finding.sort_key: finding for finding in unreadable}
    findings.update((finding.sort_key, finding) for rule in table for finding in _findings(bundle, rule, report))
    return tuple(finding for _, finding in sorted(findings.items()))


def _unreadable(problem: InputProblem) -> Finding:
    """The finding for a file or document that cannot be parsed; rules do not see it."""
    position = problem.position
    where = SourceRange(position.file, position.line, position.column, position.line, position.column)
    return Finding(
        code="S100", name=problem.code, level="error", message=problem.message, where=where, help=problem.hint
    )


def _findings(bundle: Bundle, rule: Rule, report: SimulationReport | None) -> Iterator[Finding]:
    for match in bundle.results_of(rule.find):
        check_time()
        document = match.document
        yield Finding(
            code=rule.code,
            name=rule.name,
            level=match.level or rule.level,
            message=match.message,
            where=_range(match),
            path=join_path(match.path),
            subject=" ".join(filter(None, (document.kind, document.name))),
            help=match.help,
            fix=match.fix if report is None else report.tested_instead(bundle, rule.code, match),
        )


def _range(match: RuleMatch) -> SourceRange:
    document = match.document
    start, end = document.extent(match.path, at="key" if match.at_key else "value", part=match.span)
    return SourceRange(start.file, start.line, start.column, end.line, end.column)
