"""Names and lists as sentences have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


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


def unknown_versions(served: Iterable[str], known: Iterable[str]) -> str:
    """Why objects cannot be read that a cluster serves only in other versions than those that are known.

    >>> unknown_versions(["v3", "v2"], ["v1", "v1beta2"])
    'served only in v2 and v3; this release of Allotment reads v1 and v1beta2'
    """
    return f"served only in {listed(sorted(served))}; this release of Allotment reads {listed(known)}"


def some(names: Sequence[str], most: int = 3) -> str:
    """The first names, and how many more there are.

    >>> some(["a", "b"]), some(["a", "b", "c", "d"])
    ('a, b', 'a, b, c and 1 more')
    """
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def quoted(name: str) -> str:
    """A name as messages have it."""
    return f'"{name}"'
