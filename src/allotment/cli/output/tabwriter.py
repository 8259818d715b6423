"""Aligns columns as kubectl does (Go's text/tabwriter): adjacent lines with the same column share its width.

A column is as wide as its widest cell plus padding, and ends at the first line without a cell in it, so that each block
of a description is aligned separately.
"""

from __future__ import annotations

from collections.abc import Sequence


def aligned(lines: Sequence[Sequence[str]], padding: int, least: int = 0) -> list[str]:
    r"""Align lines of cells. The last cell of a line is not part of a column.

    >>> aligned([["NAME", "AGE"], ["web-0", "5m"]], 3, 6)
    ['NAME    AGE', 'web-0   5m']
    >>> aligned([["Name:", "web"], ["Labels:", "<none>"], ["Spec:"], ["  A:", "1"]], 2)
    ['Name:    web', 'Labels:  <none>', 'Spec:', '  A:  1']
    """
    widths: list[list[int]] = [[0] * (len(line) - 1) for line in lines]
    for column in range(max((len(row) for row in widths), default=0)):
        block: list[int] = []
        for number in range(len(lines) + 1):
            if number < len(lines) and column < len(widths[number]):
                block.append(number)
                continue
            width = max((len(lines[n][column]) + padding for n in block), default=0)
            for n in block:
                widths[n][column] = max(width, least)
            block = []
    return [
        "".join(cell.ljust(width) for cell, width in zip(line, row, strict=False)) + (line[-1] if line else "")
        for line, row in zip(lines, widths, strict=True)
    ]


class Columns:
    """Aligns rows that arrive over time, for example from a watch; columns never become narrower."""

    def __init__(self, padding: int = 3, least: int = 6) -> None:
        self._padding = padding
        self._least = least
        self._widths: list[int] = []

    def lines(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """Align more rows."""
        for row in rows:
            for number, cell in enumerate(row[:-1]):
                if number == len(self._widths):
                    self._widths.append(self._least)
                self._widths[number] = max(self._widths[number], len(cell) + self._padding)
        return [
            "".join(cell.ljust(width) for cell, width in zip(row[:-1], self._widths, strict=False)) + row[-1]
            for row in rows
            if row
        ]
