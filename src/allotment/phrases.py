"""Numbers and lists as sentences have them: ``2 pods``, ``a, b and c``, ``a, b, c and 4 more``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

_SIBILANTS: Final = ("s", "x", "ch", "sh")


def plural(noun: str) -> str:
    """The plural of a regular noun, or of each of two.

    >>> plural("pod"), plural("DeviceClass"), plural("claim or template")
    ('pods', 'DeviceClasses', 'claims or templates')
    """
    return " or ".join(word + ("es" if word.endswith(_SIBILANTS) else "s") for word in noun.split(" or "))


def counted(number: int, singular: str, plural_form: str = "") -> str:
    """A number and what it counts; ``many`` is the plural where it is not regular.

    >>> counted(1, "pod"), counted(0, "pod"), counted(2, "device that matches", "devices that match")
    ('1 pod', '0 pods', '2 devices that match')
    """
    return f"{number} {singular if number == 1 else plural_form or plural(singular)}"


def listed(words: Iterable[str], last: str = "and") -> str:
    """Words as a sentence lists them.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    *before, end = ["", *words]
    return f" {last} ".join(filter(None, (", ".join(before[1:]), end)))


def either(words: Iterable[str]) -> str:
    """Words of which one is enough.

    >>> either(["a", "b", "c"])
    'a, b or c'
    """
    return listed(words, "or")


def first_few(names: Sequence[str], limit: int = 3, noun: str = "") -> str:
    """The first names, and how many more there are; ``noun``: what they are.

    >>> some(["a", "b"]), some(["a", "b", "c", "d"]), some(["a", "b", "c"], 1, "claim")
    ('a, b', 'a, b, c and 1 more', 'a and 2 more claims')
    """
    rest = len(names) - limit
    more = counted(rest, f"more {noun}") if noun else f"{rest} more"
    return ", ".join(names[:limit]) + (f" and {more}" if rest > 0 else "")


def quoted(name: str) -> str:
    """A name as messages have it."""
    return f'"{name}"'
