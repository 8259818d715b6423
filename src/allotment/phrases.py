"""Formats counts and lists for messages: ``2 pods``, ``a, b and c``, ``a, b, c and 4 more``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

_SIBILANTS: Final = ("s", "x", "ch", "sh")


def plural(noun: str) -> str:
    """The plural of a regular noun, or of two nouns joined by "or".

    >>> plural("pod"), plural("DeviceClass"), plural("claim or template")
    ('pods', 'DeviceClasses', 'claims or templates')
    """
    return " or ".join(word + ("es" if word.endswith(_SIBILANTS) else "s") for word in noun.split(" or "))


def counted(number: int, singular: str, plural_form: str = "") -> str:
    """A number with its noun; ``plural_form``: an irregular plural.

    >>> counted(1, "pod"), counted(0, "pod"), counted(2, "device that matches", "devices that match")
    ('1 pod', '0 pods', '2 devices that match')
    """
    return f"{number} {singular if number == 1 else plural_form or plural(singular)}"


def listed(words: Iterable[str], last: str = "and") -> str:
    """Words joined by commas and "and".

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    *before, end = ["", *words]
    return f" {last} ".join(filter(None, (", ".join(before[1:]), end)))


def either(words: Iterable[str]) -> str:
    """Words joined by commas and "or".

    >>> either(["a", "b", "c"])
    'a, b or c'
    """
    return listed(words, "or")


def first_few(names: Sequence[str], limit: int = 3, noun: str = "") -> str:
    """The first ``limit`` names and the number of the others; ``noun``: the noun for them.

    >>> first_few(["a", "b"]), first_few(["a", "b", "c", "d"]), first_few(["a", "b", "c"], 1, "claim")
    ('a, b', 'a, b, c and 1 more', 'a and 2 more claims')
    """
    rest = len(names) - limit
    more = counted(rest, f"more {noun}") if noun else f"{rest} more"
    return ", ".join(names[:limit]) + (f" and {more}" if rest > 0 else "")


def quoted(name: str) -> str:
    """A name in double quotes."""
    return f'"{name}"'


def split_words(texts: str | Iterable[str]) -> tuple[str, ...]:
    """Return the words of comma-separated texts.

    >>> split_words("aws, gcp"), split_words(["aws,gcp", "azure"])
    (('aws', 'gcp'), ('aws', 'gcp', 'azure'))
    """
    listed = (texts,) if isinstance(texts, str) else texts
    return tuple(word.strip() for text in listed for word in text.split(",") if word.strip())
