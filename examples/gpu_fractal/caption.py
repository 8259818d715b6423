"""What stands at the foot of a picture: the device, its share and how it is shared; the place and the zoom."""

from __future__ import annotations

from functools import cache
from typing import Final

from gpu_fractal.about import About
from gpu_fractal.drawing import Size
from gpu_fractal.lettering import text_width, write
from gpu_fractal.places import View
from gpu_fractal.schemes import Rgb

_WHITE: Final[Rgb] = (255, 255, 255)
_SOFT: Final[Rgb] = (214, 220, 228)

#: Heights of capitals in a picture 800 pixels wide, and the least that can be read.
_LARGE: Final = 14.0
_SMALL: Final = 10.0
_LEAST: Final = 6.5
_DESIGNED_FOR: Final = 800

#: How dark the foot gets: the part of the light that is left at the bottom.
_DARKEST: Final = 0.2


def caption(pixels: bytearray, size: Size, about: About, view: View, number: int) -> None:
    """Write it, in place."""
    scale = size.width / _DESIGNED_FOR
    large, small = max(_LARGE * scale, _LEAST + 1), max(_SMALL * scale, _LEAST)
    margin = round(1.5 * large)
    lower = size.height - margin
    upper = round(lower - small - 0.95 * large)
    _darken(pixels, size, round(6.5 * large))
    below = " · ".join(words for words in (about.strategy, about.share) if words)
    if margin + text_width(below, small) + margin > size.width:
        below = below.replace("multiprocessors", "SMs")
    left = [(about.device, upper, large, _WHITE), (below, lower, small, _SOFT)]
    right = [(view.place, upper, small, _WHITE), (f"zoom {view.zoom:,.0f}× · no. {number}", lower, small, _SOFT)]
    for (text, baseline, height, colour), (other, _, other_height, other_colour) in zip(left, right, strict=True):
        write(pixels, size.width, text, margin, baseline, height, colour)
        begin = size.width - margin - text_width(other, other_height)
        # On a narrow picture what says who drew it matters more than where.
        if begin > margin + text_width(text, height) + margin:
            write(pixels, size.width, other, begin, baseline, other_height, other_colour)


def _darken(pixels: bytearray, size: Size, rows: int) -> None:
    """Let the foot fade towards black."""
    row = 3 * size.width
    for depth in range(rows):
        begin = (size.height - rows + depth) * row
        if begin >= 0:
            part = min((depth + 1) / rows * 1.5, 1.0)
            pixels[begin : begin + row] = pixels[begin : begin + row].translate(_dimmed(round(100 * part)))


@cache
def _dimmed(per_cent: int) -> bytes:
    smooth = (per_cent / 100) ** 2 * (3 - 2 * per_cent / 100)
    left = 1 - (1 - _DARKEST) * smooth
    return bytes(round(value * left) for value in range(256))
