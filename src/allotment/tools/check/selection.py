"""Which rules are meant by ``--select``, ``--ignore`` and their like in configuration and comments.

A word is a code (``S102``), how codes begin (``S``, ``C2``), a rule's name (``flat-request``), a family (``cel``) or
``all``. Where words for and against meet, the one that says more wins; of two that say as much, the one against.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from allotment.tools.check.catalog import FAMILIES, by_code, catalogue
from allotment.tools.check.rule import Rule


@dataclass(frozen=True, slots=True)
class Choice:
    """Words for and against rules; without words for any, all are meant."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def has(self, code: str) -> bool:
        """Whether the rule of that code is meant."""
        wanted = max((_says(word, code) for word in self.select), default=1)
        return wanted > max((_says(word, code) for word in self.ignore), default=0)

    def rules(self, rules: Sequence[Rule]) -> tuple[Rule, ...]:
        """Those of the rules that are meant."""
        return tuple(rule for rule in rules if self.has(rule.code))


def means(word: str, code: str) -> bool:
    """Whether a word means the rule of a code.

    >>> means("C2", "C201"), means("vocabulary", "V301"), means("C2", "S102")
    (True, True, False)
    """
    return _says(word, code) > 0


def _says(word: str, code: str) -> int:
    """How exactly a word means a code; 0 where it does not."""
    plain = word.strip()
    if plain.lower() == "all":
        return 1
    family, title, _ = FAMILIES.get(code[:1], ("", "", ""))
    if plain.lower() in (family, title.lower()):
        return 2
    if plain and code.startswith(plain.upper()):
        return 1 + len(plain)
    rule = by_code().get(code)
    return 1 + len(code) if rule is not None and plain.lower() == rule.name else 0


def is_known(word: str) -> bool:
    """Whether a word means any rule."""
    return any(means(word, rule.code) for rule in catalogue())


def known_words() -> Iterable[str]:
    """Every word but the beginnings of codes, for a "did you mean"."""
    return [
        *(rule.code for rule in catalogue()), *(rule.name for rule in catalogue()),
        *(family for family, _, _ in FAMILIES.values()), *FAMILIES,
    ]  # fmt: skip
