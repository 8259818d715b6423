"""Draws text on pictures: antialiased strokes of a round pen, at any size."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

from gpu_fractal.glyphs import EQUIVALENTS, STROKES, UNKNOWN
from gpu_fractal.schemes import Rgb

#: In glyph units: the height of a capital, the gap between letters, the width of a space, the width of the pen.
_CAPITAL: Final = 12
_GAP: Final = 3.4
_SPACE: Final = 5.0
_PEN: Final = 1.75
#: The number of corner-cutting iterations for rounded strokes.
_ROUNDINGS: Final = 3

_Point = tuple[float, float]
_Segment = tuple[float, float, float, float]


class _RenderedGlyph(NamedTuple):
    """A drawn character: how much of each pixel is covered (0 to 255), as (across, down, covered) from the baseline."""

    advance: float
    pixels: tuple[tuple[int, int, int], ...]


def text_width(text: str, height: float) -> int:
    """Return the width of a text in pixels; ``height`` is that of capitals."""
    return math.ceil(sum(_glyph(letter, height).advance for letter in text) - (_GAP - _PEN) * height / _CAPITAL)


def draw_text(
    pixels: bytearray, width: int, text: str, x: int, baseline: int, height: float, colour: Rgb = (255, 255, 255)
) -> None:
    """Draw text on RGB pixels with ``width`` pixels per row. Parts outside the picture are clipped.

    ``height`` is that of capitals; the pen's middle runs along the baseline.
    """
    rows = len(pixels) // (3 * width)
    pen: float = x + _PEN / 2 * height / _CAPITAL
    for letter in text:
        glyph = _glyph(letter, height)
        left = round(pen)
        for across, down, covered in glyph.pixels:
            column, row = left + across, baseline + down
            if 0 <= column < width and 0 <= row < rows:
                offset = 3 * (row * width + column)
                for channel in range(3):
                    pixels[offset + channel] += (colour[channel] - pixels[offset + channel]) * covered // 255
        pen += glyph.advance


@cache
def _glyph(letter: str, height: float) -> _RenderedGlyph:
    unit = height / _CAPITAL
    strokes = [_points(stroke) for stroke in STROKES.get(EQUIVALENTS.get(letter, letter), UNKNOWN)]
    if not strokes:
        return _RenderedGlyph(_SPACE * unit, ())
    right = max(x for stroke in strokes for x, _ in stroke)
    segments = [segment for stroke in strokes for segment in _segments(stroke, unit)]
    radius = max(_PEN * unit / 2, 0.55)
    edge = math.ceil(radius + 1)
    lowest = math.ceil(max(max(y1, y2) for _, y1, _, y2 in segments)) + edge
    pixels = []
    for down in range(-math.ceil(height) - edge, lowest + 1):
        for across in range(-edge, math.ceil(right * unit) + edge + 1):
            distance = min(_distance(across, down, segment) for segment in segments)
            covered = round(255 * min(max(radius + 0.5 - distance, 0.0), 1.0))
            if covered:
                pixels.append((across, down, covered))
    return _RenderedGlyph((right + _GAP) * unit, tuple(pixels))


def _points(stroke: str) -> list[_Point]:
    """Return the points of a stroke, rounded if specified, in units from the left end of the baseline."""
    style, digits = (stroke[0], stroke[1:]) if stroke[0] in "~@" else ("", stroke)
    points = [(float(int(x, 36)), float(int(y, 36) - _CAPITAL)) for x, y in zip(digits[::2], digits[1::2], strict=True)]
    for _ in range(_ROUNDINGS if style else 0):
        points = list(_cut_corners(points, closed=style == "@"))
    return [*points, points[0]] if style == "@" else points


def _cut_corners(points: list[_Point], *, closed: bool) -> Iterator[_Point]:
    """Cut each corner at a quarter of its sides (Chaikin); the ends of an open stroke stay."""
    sides = list(zip(points, [*points[1:], points[0]] if closed else points[1:], strict=False))
    if not closed:
        yield points[0]
    for number, ((x1, y1), (x2, y2)) in enumerate(sides):
        if closed or number > 0:
            yield 0.75 * x1 + 0.25 * x2, 0.75 * y1 + 0.25 * y2
        if closed or number < len(sides) - 1:
            yield 0.25 * x1 + 0.75 * x2, 0.25 * y1 + 0.75 * y2
    if not closed:
        yield points[-1]


def _segments(points: list[_Point], unit: float) -> Iterator[_Segment]:
    for (x1, y1), (x2, y2) in pairwise(points):
        yield x1 * unit, y1 * unit, x2 * unit, y2 * unit


def _distance(x: float, y: float, segment: _Segment) -> float:
    x1, y1, x2, y2 = segment
    dx, dy = x2 - x1, y2 - y1
    length = dx * dx + dy * dy
    along = min(max(((x - x1) * dx + (y - y1) * dy) / length, 0.0), 1.0) if length else 0.0
    return math.hypot(x - x1 - along * dx, y - y1 - along * dy)
