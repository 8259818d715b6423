"""Unified diffs for ``patch``, with the line endings of the files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import unified_diff
from typing import Final

from allotment.cli.output.console import Screen

#: The old name of a new file.
_NOTHING: Final = "/dev/null"
_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}


def show_diff(screen: Screen, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Print the changes of each file.

    On a terminal it is coloured; otherwise the output is exact, for ``patch``.
    """
    for line in _diff(before, after):
        if screen.out.isatty():
            screen.line(_painted(screen, line.removesuffix("\r")))
        else:
            screen.out.write(f"{line}\n")


def _diff(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for file, text in after.items():
        old = file if file in before else _NOTHING
        for line in unified_diff(_lines(before.get(file, "")), _lines(text), old, file):
            yield line.removesuffix("\n")
            if not line.endswith("\n"):
                yield "\\ No newline at end of file"


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _painted(screen: Screen, line: str) -> str:
    if line.startswith(("--- ", "+++ ")):
        return screen.paint(line, "bold")
    return screen.paint(line, _COLOURS[line[0]]) if line[:1] in _COLOURS else line
