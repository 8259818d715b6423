"""Colours of pictures: one for each workload, told apart by people who see few colours as well."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

#: After Okabe and Ito, and Tol, muted; neighbours differ in lightness, too.
COLOURS: Final = (
    "#4477aa", "#ee8866", "#44aa77", "#eedd88", "#aa4499", "#77aadd", "#bbcc33", "#cc6677", "#117733", "#99ddff",
    "#ddaa33", "#8877bb",
)  # fmt: skip
OTHER: Final = "#9a9a9a"
INK, FAINT, PAPER, FREE, EDGE, TRACK = "#22262b", "#6b7280", "#ffffff", "#f1f3f5", "#c3c9d1", "#e5e8ec"
ALARM: Final = "#b3261e"


def colours_of(names: Iterable[str]) -> Mapping[str, str]:
    """A colour for each name, in the order given; when there are no more, the rest has the colour of all others."""
    return {name: COLOURS[n] if n < len(COLOURS) else OTHER for n, name in enumerate(dict.fromkeys(names))}


def ink_on(colour: str) -> str:
    """Black or white, whichever is read better on a colour."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 145 else PAPER
