"""Expressions that do not compile for a reason that everybody meets once, written as they were meant.

Whether the new text compiles, and whether the claims fit with it, is for the caller to try.
"""

from __future__ import annotations

from typing import NamedTuple

from allotment.cel import common_mistakes, ordering_operators


class Meant(NamedTuple):
    """What to do about an expression, in words, and the whole expression after it."""

    words: str
    expression: str


def meant(expression: str) -> Meant | None:
    """The expression without slips, and with methods where CEL has no operators; None if it has neither.

    >>> meant('device.driver = "x=y" and device.capacity["d"].memory >= quantity("40Gi")')
    Meant(words='write == for =, write && for and, compare with compareTo', \
expression='device.driver == "x=y" && device.capacity["d"].memory.compareTo(quantity("40Gi")) >= 0')
    """
    parsed = common_mistakes.fix_mistakes(expression)
    words = [] if parsed is None else [f"write {slip.replacement} for {slip.text}" for slip in parsed.mistakes]
    text = expression if parsed is None else parsed.expression
    compared = ordering_operators.rewrite_orderings(text)
    words += [] if compared is None else ["compare with compareTo"]
    return Meant(", ".join(dict.fromkeys(words)), compared or text) if words else None
