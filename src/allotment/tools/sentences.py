"""Names and lists as sentences have them."""

from __future__ import annotations

from collections.abc import Iterable


def listed(words: Iterable[str], last: str = "and") -> str:
    """Words as a sentence lists them.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    *before, end = ["", *words]
    return f" {last} ".join(filter(None, (", ".join(before[1:]), end)))


def either(words: Iterable[str]) -> str:
    """Words of which one will do.

    >>> either(["a", "b", "c"])
    'a, b or c'
    """
    return listed(words, "or")


def quoted(name: str) -> str:
    """A name as messages have it."""
    return f'"{name}"'
