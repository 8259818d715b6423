"""The rules of ``allot check``."""

from __future__ import annotations

from typing import Any

from allotment.errors import InputError
from allotment.fleet.errors import suggestion
from allotment.tools.check.catalog import all_rules
from allotment.tools.check.reference import page_link
from allotment.tools.check.rule import Rule
from allotment.tools.check.selection import is_known_pattern, known_patterns, pattern_matches


def rules(pattern: str = "all") -> list[dict[str, Any]]:
    """Return the rules of a family or code prefix: ``"cel"``, ``"M4"``; by default all. Raises InputError.

    The keys of a rule: ``code``, ``name``, ``family``, ``level``, ``summary``, ``why``, ``bad``, ``good``, ``fixable``,
    ``see``, ``url``.
    """
    return [rule_data(rule) for rule in matching_rules(pattern)]


def rule(code: str) -> dict[str, Any]:
    """Return one rule: ``"M401"``. Raises InputError.

    The keys are those of ``rules``.
    """
    found = matching_rules(code)
    if len(found) != 1:
        raise InputError(f"expected the code of one rule, found {code!r}, which selects {len(found)}")
    return rule_data(found[0])


def matching_rules(pattern: str) -> list[Rule]:
    """Return the rules that a pattern selects. Raises InputError for an unknown one."""
    if not is_known_pattern(pattern):
        hint = suggestion(pattern, known_patterns()) or "allot rule lists all rules"
        raise InputError(f"unknown rule {pattern!r}", hint)
    return [rule for rule in all_rules() if pattern_matches(pattern, rule.code)]


def rule_data(rule: Rule) -> dict[str, Any]:
    """Return a rule as data."""
    return {
        "code": rule.code, "name": rule.name, "family": rule.family, "level": rule.level, "summary": rule.summary,
        "why": rule.why, "bad": rule.bad, "good": rule.good, "fixable": rule.fixable, "see": rule.see,
        "url": page_link(rule.code),
    }  # fmt: skip
