"""Runs rules on a bundle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from allotment.model.loading import InputProblem
from allotment.model.loading.marks import join_path
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.finding import Finding, SourceRange
from allotment.tools.check.rule import Rule, RuleMatch
from allotment.tools.check.rules import RULES


def check(bundle: Bundle, rules: Iterable[Rule] = RULES) -> tuple[Finding, ...]:
    """All findings of the rules, sorted by position; duplicates are reported once."""
    unreadable = (_unreadable(problem) for problem in bundle.problems)
    findings = {finding.sort_key: finding for finding in unreadable}
    findings.update((finding.sort_key, finding) for rule in rules for finding in _findings(bundle, rule))
    return tuple(finding for _, finding in sorted(findings.items()))


def _unreadable(problem: InputProblem) -> Finding:
    """The finding for a file or document that cannot be parsed; rules do not see it."""
    position = problem.position
    where = SourceRange(position.file, position.line, position.column, position.line, position.column)
    return Finding(
        code="S100", name=problem.code, level="error", message=problem.message, where=where, help=problem.hint
    )


def _findings(bundle: Bundle, rule: Rule) -> Iterator[Finding]:
    for match in bundle.results_of(rule.find):
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
            fix=match.fix,
        )


def _range(match: RuleMatch) -> SourceRange:
    document = match.document
    start, end = document.extent(match.path, at="key" if match.at_key else "value", part=match.span)
    return SourceRange(start.file, start.line, start.column, end.line, end.column)
