"""Lines of expressions: what is put into a long one gets a line of its own, where the author writes on several.

In a literal block a line break is part of the expression, and a blank to CEL. Strings that are folded over lines are
broken where they are written (``model.editing.strings``).
"""

from __future__ import annotations

from typing import Final

from allotment.cel.source_spans import Extent
from allotment.tools.views import SelectorView

#: A line that becomes longer is broken.
_LONGEST: Final = 100
_AND: Final = " && "


def on_lines(view: SelectorView, extent: Extent, text: str) -> str:
    """``text``, which takes the place of a part of an expression, with a line break at its last ``&&`` if needed."""
    document = view.document
    before, joined, behind = text.rpartition(_AND)
    if not joined:
        return text
    lines = document.origin.source.removeprefix("\ufeff").split("\n")
    opening = document.extent(view.path)[0]
    start, end = document.extent(view.path, part=extent)
    if max(start.line, end.line) > len(lines) or lines[opening.line - 1][opening.column - 1 : opening.column] != "|":
        return text
    rest = len(lines[end.line - 1].rstrip()) - (end.column - 1)
    if start.column - 1 + len(text) + rest <= _LONGEST:
        return text
    line = view.expression[view.expression.rfind("\n", 0, extent[0]) + 1 :]
    margin = "\n" + line[: len(line) - len(line.lstrip(" "))]
    if "\n&&" in view.expression.replace(" ", ""):  # each line begins with what joins it to the one above
        return f"{before}{margin}{_AND.lstrip()}{behind}"
    return f"{before}{_AND.rstrip()}{margin}{behind}"
