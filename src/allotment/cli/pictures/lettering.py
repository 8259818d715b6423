"""Letters in pictures: how wide a text is, and as much of it as there is room for.

One font that comes with matplotlib is used for all, so that a picture is the same on every machine.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

FAMILY: Final = "DejaVu Sans"
_POINTS: Final = 72


@lru_cache(maxsize=8192)
def width_of(text: str, size: float, bold: bool = False) -> float:
    """Inches that a text is wide at a size in points."""
    if not text.strip():
        return 0.3 * size * len(text) / _POINTS
    font = FontProperties(family=FAMILY, weight="bold" if bold else "normal")
    return float(TextPath((0, 0), text, size=size, prop=font).get_extents().width) / _POINTS


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
