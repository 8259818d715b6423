"""Selects rules by the patterns of ``--select``, ``--ignore``, configuration files and comments.

A pattern is a code (``S102``), a prefix of codes (``S``, ``C2``), a rule's name (``flat-request``), a family (``cel``)
or ``all``. If both a ``select`` and an ``ignore`` pattern match a rule, the more specific one wins; of two equally
specific ones, ``ignore`` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from allotment.tools.check.catalog import FAMILIES, all_rules, rules_by_code
from allotment.tools.check.rule import Rule


@dataclass(frozen=True, slots=True)
class RuleSelection:
    """The patterns that select and ignore rules; without ``select`` patterns, all rules are selected."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def includes(self, code: str) -> bool:
        strength = max((_specificity(pattern, code) for pattern in self.select), default=1)
        return strength > max((_specificity(pattern, code) for pattern in self.ignore), default=0)

    def filter(self, rules: Sequence[Rule]) -> tuple[Rule, ...]:
        return tuple(rule for rule in rules if self.includes(rule.code))


def pattern_matches(pattern: str, code: str) -> bool:
    """Whether a pattern matches the rule with a code.

    >>> pattern_matches("C2", "C201"), pattern_matches("vocabulary", "V301"), pattern_matches("C2", "S102")
    (True, True, False)
    """
    return _specificity(pattern, code) > 0


def _specificity(pattern: str, code: str) -> int:
    """The specificity with which a pattern matches a code; 0 if it does not match."""
    text = pattern.strip()
    if text.lower() == "all":
        return 1
    family, title, _ = FAMILIES.get(code[:1], ("", "", ""))
    if text.lower() in (family, title.lower()):
        return 2
    if text and code.startswith(text.upper()):
        return 1 + len(text)
    rule = rules_by_code().get(code)
    return 1 + len(code) if rule is not None and text.lower() == rule.name else 0


def is_known_pattern(pattern: str) -> bool:
    """Whether a pattern matches any rule."""
    return any(pattern_matches(pattern, rule.code) for rule in all_rules())


def known_patterns() -> Iterable[str]:
    """All patterns except prefixes of codes, for "did you mean" suggestions."""
    return [
        *(rule.code for rule in all_rules()), *(rule.name for rule in all_rules()),
        *(family for family, _, _ in FAMILIES.values()), *FAMILIES,
    ]  # fmt: skip
