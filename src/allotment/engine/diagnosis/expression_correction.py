"""Correction of CEL expressions that do not compile because of a common mistake.

The caller checks whether the corrected expression compiles and whether the claims fit with it.
"""

from __future__ import annotations

from typing import NamedTuple

from allotment.cel import common_mistakes, ordering_operators


class Correction(NamedTuple):
    """The description of a correction, and the corrected expression."""

    text: str
    expression: str


def correct_expression(expression: str) -> Correction | None:
    """Fix common mistakes, and replace operators that CEL does not have by methods; None if nothing changes.

    >>> correct_expression('device.driver = "x=y" and device.capacity["d"].memory >= quantity("40Gi")')
    Correction(text='write == instead of =, write && instead of and, compare with compareTo', \
expression='device.driver == "x=y" && device.capacity["d"].memory.compareTo(quantity("40Gi")) >= 0')
    """
    parsed = common_mistakes.fix_mistakes(expression)
    steps = [] if parsed is None else [f"write {m.replacement} instead of {m.text}" for m in parsed.mistakes]
    text = expression if parsed is None else parsed.expression
    compared = ordering_operators.rewrite_orderings(text)
    steps += [] if compared is None else ["compare with compareTo"]
    return Correction(", ".join(dict.fromkeys(steps)), compared or text) if steps else None
