"""Completion indexes of a Job, as the text in its status: ``0,2-4``."""

from __future__ import annotations

from collections.abc import Iterable


def parse_indexes(text: str | None) -> set[int]:
    """The numbers that a text names.

    >>> sorted(parse_indexes("0,2-4"))
    [0, 2, 3, 4]
    """
    indexes: set[int] = set()
    for part in (text or "").split(","):
        if part:
            first, _, last = part.partition("-")
            indexes.update(range(int(first), int(last or first) + 1))
    return indexes


def format_indexes(indexes: Iterable[int]) -> str:
    """The shortest text that names the numbers.

    >>> format_indexes({4, 0, 2, 3})
    '0,2-4'
    """
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    # Two neighbours are written as a list, three as a range.
    parts = [f"{a}" if a == b else f"{a},{b}" if b == a + 1 else f"{a}-{b}" for a, b in runs]
    return ",".join(parts)
