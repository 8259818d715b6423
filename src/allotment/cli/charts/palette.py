"""Colours of charts: one for each workload, distinguishable with colour blindness."""

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
    """Return a colour for each name in order; the names beyond the palette share one colour."""
    return {name: COLOURS[n] if n < len(COLOURS) else OTHER for n, name in enumerate(dict.fromkeys(names))}


def ink_on(colour: str) -> str:
    """Return dark or white, whichever has more contrast with a colour."""
    light = _luminance(colour)
    # Contrast as in WCAG 2: (lighter + 0.05) / (darker + 0.05).
    dark = (light + 0.05) / (_luminance(INK) + 0.05)
    return INK if dark >= 1.05 / (light + 0.05) else PAPER


def _luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
