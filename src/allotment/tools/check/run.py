"""Holds a bundle against the rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from allotment.model.loading import Problem
from allotment.model.loading.marks import join_path
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.finding import Finding, Range
from allotment.tools.check.rule import Found, Rule
from allotment.tools.check.rules import RULES


def check(bundle: Bundle, rules: Iterable[Rule] = RULES) -> tuple[Finding, ...]:
    """Everything that the rules find, in the order of places; what is the same twice is told once."""
    unreadable = (_unreadable(problem) for problem in bundle.problems)
    found = {finding.order: finding for finding in unreadable}
    found.update((finding.order, finding) for rule in rules for finding in _findings(bundle, rule))
    return tuple(finding for _, finding in sorted(found.items()))


def _unreadable(problem: Problem) -> Finding:
    """A file or document that cannot be read at all; no rule sees it."""
    place = problem.position
    where = Range(place.file, place.line, place.column, place.line, place.column)
    return Finding(
        code="S100", name=problem.code, level="error", message=problem.message, where=where, help=problem.hint
    )


def _findings(bundle: Bundle, rule: Rule) -> Iterator[Finding]:
    for found in bundle.found(rule.find):
        document = found.document
        yield Finding(
            code=rule.code,
            name=rule.name,
            level=found.level or rule.level,
            message=found.message,
            where=_range(found),
            path=join_path(found.path),
            subject=" ".join(filter(None, (document.kind, document.name))),
            help=found.help,
            fix=found.fix,
        )


def _range(found: Found) -> Range:
    document = found.document
    start, end = document.extent(found.path, at="key" if found.key else "value", part=found.part)
    return Range(start.file, start.line, start.column, end.line, end.column)
