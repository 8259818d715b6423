"""The console: width, colours, and tables that fit the width.

On a terminal tables are cut to its width; into a pipe or file they are whole, and without colour, so that the same
input gives the same bytes.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from allotment.model.serialization import to_json, to_yaml

_COLOURS = {"red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36", "bold": "1", "dim": "2"}
_GAP = "   "
_NARROWEST = 6
#: Control characters that move the cursor, set the title or change the text direction, and colour sequences.
_CONTROL = re.compile(r"(\x1b\[(?:[012]|3[0-7])m)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Screen:
    """Standard output; ``width`` is ``None`` if it is not a terminal."""

    out: TextIO
    width: int | None
    colour: bool

    def line(self, text: str = "") -> None:
        """Write one line."""
        self.out.write(visible(text, self.colour) + "\n")

    def paint(self, text: str, colour: str) -> str:
        """Return the text in a colour of ``_COLOURS``, if colours are enabled."""
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if self.colour else text

    def data(self, data: object, form: str) -> None:
        """Write data as ``form``: json or yaml."""
        self.out.write(to_json(data) + "\n" if form == "json" else to_yaml([data]))

    def table(self, headers: Sequence[str], rows: Iterable[Sequence[str]], cut: Sequence[str] = ()) -> None:
        """Write a table with upper-case headers; an empty cell is ``<none>``, as in kubectl."""
        for line in table(headers, rows, self.width, cut):
            self.line(line)


def open_screen() -> Screen:
    """Return standard output as a `Screen`; ``NO_COLOR`` and ``COLUMNS`` are respected."""
    out = sys.stdout
    colour = out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Screen(out, width_of(out), colour)


def width_of(stream: TextIO) -> int | None:
    """Return the width of the terminal or ``COLUMNS``; ``None`` for a pipe or file."""
    if not (stream.isatty() or os.environ.get("COLUMNS")):
        return None
    return max(shutil.get_terminal_size((80, 24)).columns, 40)


def visible(text: str, colour: bool = False) -> str:
    """Replace control characters in a text: objects can contain arbitrary strings.

    >>> visible("T4\\x1b[2J")
    'T4�[2J'
    """
    return _CONTROL.sub(lambda match: (colour and match[1]) or "�", text) if not text.isprintable() else text


def table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], width: int | None, cut: Sequence[str] = ()
) -> list[str]:
    """Return a table as lines, fitted to ``width`` by truncating the widest cells of the columns in ``cut``, or of any.

    Columns not in ``cut`` stay whole, because a truncated name is useless; if the table cannot fit, none is truncated.
    Of several words the last is kept, because it distinguishes kinds.

    >>> print("\\n".join(table(["NAME", "GPUS"], [["dgx", "8"], ["", "4"]], None)))
    NAME     GPUS
    dgx      8
    <none>   4
    """
    cells = [list(headers), *([re.sub(r"[\n\t]", " ", cell) or "<none>" for cell in row] for row in rows)]
    widths = [max(len(row[n]) for row in cells) for n in range(len(headers))]
    if width is not None:
        spare = width - len(_GAP) * (len(widths) - 1)
        columns = [n for n, header in enumerate(headers) if header in cut or not cut]
        least = sum(min(size, _NARROWEST) if n in columns else size for n, size in enumerate(widths))
        while (not cut or least <= spare) and sum(widths) > spare and max(widths[n] for n in columns) > _NARROWEST:
            widths[max(columns, key=widths.__getitem__)] -= 1
    lines = []
    for row in cells:
        parts = [_shortened(cell, size).ljust(size) for cell, size in zip(row, widths, strict=True)]
        lines.append(_GAP.join(parts).rstrip())
    return lines


def _shortened(cell: str, width: int) -> str:
    before, _, last = cell.rpartition(" ")
    room = width - len(last) - 1
    return f"{shorten(before, room)} {last}" if len(cell) > width and room >= _NARROWEST else shorten(cell, width)


def shorten(text: str, width: int) -> str:
    """Return the text, truncated with an ellipsis."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def from_home(path: str | Path) -> str:
    """Return a path with ``~`` for the home directory."""
    home = Path.home()
    return f"~/{Path(path).relative_to(home)}" if Path(path).is_relative_to(home) else str(path)


def called() -> str:
    """Return how to call this program: ``allot``, or its path if it is not on the PATH."""
    program = Path(sys.argv[0])
    return str(program) if program.name == "allot" and shutil.which("allot") is None else "allot"


def print_notes(notes: Iterable[str]) -> None:
    """Print notes about a result on standard error."""
    for note in notes:
        for line in folded(f"note: {note}", width_of(sys.stderr)):
            sys.stderr.write(f"{visible(line)}\n")


def folded(text: str, width: int | None, indent: str = "") -> list[str]:
    """Fold a text to lines of ``width`` columns; continuation lines are indented deeper, longer words stay whole."""
    if width is None or len(indent + text) <= width:
        return [indent + text]
    import textwrap

    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
