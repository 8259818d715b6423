"""Text measurement for charts: the width of a text, and truncation to a width.

A font of matplotlib is used, so that a chart is the same on every machine.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from matplotlib.font_manager import FontProperties, findfont, get_font

FAMILY: Final = "DejaVu Sans"
_POINTS: Final = 72
#: The font size in points at which advances are measured; they scale linearly.
_MEASURED: Final = 100
_FIXED: Final = 1 << 16


def width_of(text: str, size: float, bold: bool = False) -> float:
    """Return the width in inches of a text at a font size in points."""
    return sum(_advance(letter, bold) for letter in text) * size / _POINTS


@lru_cache(maxsize=4096)
def _advance(letter: str, bold: bool) -> float:
    """Return the advance of a character as a fraction of the font size."""
    font = get_font(findfont(FontProperties(family=FAMILY, weight="bold" if bold else "normal")))
    font.set_size(_MEASURED, _POINTS)
    glyph = font.load_char(ord(letter))
    return float(glyph.linearHoriAdvance) / _FIXED / _MEASURED


def fitted(text: str, room: float, size: float, bold: bool = False, numbered: bool = True) -> str:
    """Return the text, truncated with an ellipsis to ``room`` inches; empty if hardly anything fits.

    ``numbered``: a number at the end is kept, because it distinguishes pod names.
    """
    if width_of(text, size, bold) <= room:
        return text
    stem = text.rstrip("0123456789") if numbered else text
    end = text[len(stem) :] if numbered and len(stem) > 1 else ""
    for length in range(len(stem) - 1, 1, -1):
        shorter = f"{stem[:length].rstrip('-')}…{end}"
        if width_of(shorter, size, bold) <= room:
            return shorter
    return end if end and width_of(end, size, bold) <= room else ""
