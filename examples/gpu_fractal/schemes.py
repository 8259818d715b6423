"""The eight colour schemes: closed paths through a few colours, and a separate colour for the inside."""

from __future__ import annotations

import math
from functools import cache
from typing import Final, NamedTuple

Rgb = tuple[int, int, int]

#: Entries of a palette; enough for visually smooth transitions.
SHADES: Final = 2048


class Scheme(NamedTuple):
    """A colour scheme. ``stops`` are equidistant; the last one is followed by the first."""

    name: str
    inside: str
    stops: tuple[str, ...]


SCHEMES: Final = (
    Scheme(
        "ember", "#0b0406", ("#16060c", "#5c0f1c", "#b5301a", "#ee7a1d", "#ffd470", "#fff6dc", "#c8703a", "#4a1220")
    ),
    Scheme(
        "ocean", "#020a14", ("#03101f", "#06335c", "#0a6b9c", "#27b3c4", "#b8f0e4", "#f4fff8", "#4f9fc0", "#0c3358")
    ),
    Scheme(
        "aurora", "#04070f", ("#070b1c", "#123a5a", "#12857c", "#5fd38a", "#e6f7b0", "#8d7bd0", "#4a2a86", "#150f3a")
    ),
    Scheme("dusk", "#08040f", ("#120a24", "#3a1a63", "#83298c", "#d9487d", "#fb9a6a", "#ffe3ab", "#a2588c", "#2f164d")),
    Scheme(
        "forest", "#040805", ("#07120b", "#143d26", "#3c7a36", "#9ab84a", "#f2eea0", "#fbfae6", "#a0844a", "#31381c")
    ),
    Scheme(
        "porcelain", "#0a1630", ("#f5f2ea", "#c6d6e8", "#7ea6d2", "#2f62ad", "#132f6e", "#1c3f8a", "#8fb3d9", "#e9e6e0")
    ),
    Scheme(
        "copper", "#0a0706", ("#140d0b", "#4a2a1f", "#94552f", "#d69a5b", "#f7e2bd", "#9fd0c4", "#3f8580", "#12302f")
    ),
    Scheme(
        "classic", "#000000", ("#000764", "#0f3d9e", "#206bcb", "#86b7ec", "#edffff", "#ffcf4a", "#ffaa00", "#3a1c02")
    ),
)


@cache
def palette(scheme: Scheme) -> bytes:
    """Return ``SHADES`` RGB colours of a scheme, followed by the colour of the inside."""
    stops = [_linear(stop) for stop in scheme.stops]
    shades = bytearray()
    for shade in range(SHADES):
        position, part = divmod(shade * len(stops) / SHADES, 1.0)
        neighbours = [stops[(int(position) + offset) % len(stops)] for offset in (-1, 0, 1, 2)]
        shades += bytes(_byte(_between(part, *colours)) for colours in zip(*neighbours, strict=True))
    return bytes(shades) + bytes(_byte(part) for part in _linear(scheme.inside))


def _linear(colour: str) -> tuple[float, ...]:
    """Return a colour on a perceptual scale (square root of linear light), in which colours are interpolated."""
    return tuple(math.sqrt((int(colour[at : at + 2], 16) / 255) ** 2.2) for at in (1, 3, 5))


def _byte(value: float) -> int:
    return round(255 * math.pow(min(max(value, 0.0), 1.0), 2 / 2.2))


def _between(part: float, before: float, left: float, right: float, after: float) -> float:
    """Interpolate between the middle two of four values with a Catmull-Rom spline."""
    a = 2 * left
    b = right - before
    c = 2 * before - 5 * left + 4 * right - after
    d = 3 * (left - right) + after - before
    return (a + part * (b + part * (c + part * d))) / 2
