"""Letters in pictures: how wide a text is, and as much of it as there is room for.

One font that comes with matplotlib is used for all, so that a picture is the same on every machine.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from matplotlib.font_manager import FontProperties, findfont, get_font

FAMILY: Final = "DejaVu Sans"
_POINTS: Final = 72
#: Advances are measured at this size, in points, and grow with it.
_MEASURED: Final = 100
_FIXED: Final = 1 << 16


def width_of(text: str, size: float, bold: bool = False) -> float:
    """Inches that a text is wide at a size in points."""
    return sum(_advance(letter, bold) for letter in text) * size / _POINTS


@lru_cache(maxsize=4096)
def _advance(letter: str, bold: bool) -> float:
    """How far a letter moves on, as a fraction of the size."""
    font = get_font(findfont(FontProperties(family=FAMILY, weight="bold" if bold else "normal")))
    font.set_size(_MEASURED, _POINTS)
    glyph = font.load_char(ord(letter))
    return float(glyph.linearHoriAdvance) / _FIXED / _MEASURED


def fitted(text: str, room: float, size: float, bold: bool = False, numbered: bool = True) -> str:
    """The text, or as much of its beginning as fits ``room`` inches before an ellipsis; empty if hardly anything does.

    A text that ends in a number keeps it (``numbered``), for that tells names of pods apart.
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
