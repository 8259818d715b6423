"""Tests of strings that values pass only in another case: ``contains("a100")`` of ``NVIDIA A100-SXM4-80GB``."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

from allotment.cel import regex


def _matches(value: str, pattern: str) -> bool:
    try:
        return regex.compile(pattern).matches(value)
    except regex.RegexError:
        return False


#: function of CEL -> whether a value passes its test with a text.
TESTS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "contains": lambda value, text: text in value,
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "matches": _matches,
}
#: A letter of a regular expression that stands for itself: not of an escape or of flags.
_LITERAL: Final = re.compile(r"(\\.|\(\?[^)]*)|([a-z])")


def in_right_case(function: str, text: str, values: Collection[str]) -> str:
    """The text in the case with which values pass a test that none passes now; empty if the case is not the reason.

    >>> in_right_case("contains", "a100", ["NVIDIA A100-SXM4-80GB"])
    'A100'
    >>> in_right_case("matches", "a100.*80gb", ["NVIDIA A100-SXM4-80GB"])
    'A100.*80GB'
    >>> in_right_case("startsWith", "A100", ["NVIDIA A100-SXM4-80GB"])
    ''
    """
    passes = TESTS[function]
    if any(passes(value, text) for value in values):
        return ""
    if function == "matches":
        return _pattern_in_right_case(text, values)
    parts = {value[start : start + len(text)] for value in values for start in range(len(value))}
    same = [part for part in parts if part.lower() == text.lower() and any(passes(value, part) for value in values)]
    return same[0] if len(same) == 1 else ""


def _pattern_in_right_case(pattern: str, values: Collection[str]) -> str:
    insensitive = f"(?i){pattern}"
    intended = {value for value in values if _matches(value, insensitive)}
    upper = _LITERAL.sub(lambda match: match[1] or match[2].upper(), pattern)
    if intended and {value for value in values if _matches(value, upper)} == intended:
        return upper
    return insensitive if intended else ""
