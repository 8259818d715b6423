"""Makes the pictures: throws the dice for place, depth and colours until there is something to see, and draws."""

from __future__ import annotations

import time
from random import Random
from typing import Final, NamedTuple

from gpu_fractal.about import About
from gpu_fractal.caption import caption
from gpu_fractal.drawing import Backend, Size, Tones, tones
from gpu_fractal.places import View, anywhere
from gpu_fractal.png import png
from gpu_fractal.schemes import SCHEMES, Scheme, palette

#: Points that are looked at before a picture is drawn, across; and how many places are looked at.
_PROBE_WIDTH: Final = 48
_TRIES: Final = 12


class Picture(NamedTuple):
    """A picture as a PNG file. ``seconds`` it took the device, of real time; ``drawn`` by the clock."""

    number: int
    png: bytes
    view: View
    scheme: Scheme
    seconds: float
    drawn: float


class Studio:
    """Draws one picture after another; the same seed gives the same pictures."""

    def __init__(self, backend: Backend, about: About, size: Size, seed: int) -> None:
        self._backend = backend
        self._about = about
        self._size = size
        self._dice = Random(seed)
        self._number = 0

    def draw(self) -> Picture:
        """The next picture."""
        view, toning, scheme = self._chosen()
        began = time.monotonic()
        pixels = self._backend.draw(view, self._size, toning, palette(scheme))
        drawn = time.monotonic()
        self._number += 1
        caption(pixels, self._size, self._about, view, self._number)
        data = png(pixels, self._size.width, self._size.height, self._described(view, scheme))
        return Picture(self._number, data, view, scheme, drawn - began, drawn)

    def _chosen(self) -> tuple[View, Tones, Scheme]:
        dice = self._dice
        probe = Size(_PROBE_WIDTH, max(_PROBE_WIDTH * self._size.height // self._size.width, 1))
        for _ in range(_TRIES):
            view, phase, rounds, scheme = anywhere(dice), dice.random(), dice.uniform(0.8, 1.3), dice.choice(SCHEMES)
            if found := tones(self._backend.counts(view, probe), phase, rounds):
                return view, found, scheme
        return view, Tones(0.0, 0.3, phase), scheme

    def _described(self, view: View, scheme: Scheme) -> dict[str, str]:
        where = f"centre {view.x!r}, {view.y!r}; width {view.width:.3g}"
        return {
            "Title": f"Mandelbrot set, {view.place}",
            "Description": f"{where}; {view.limit} steps; colours {scheme.name}",
            "Software": f"gpu_fractal on {self._about.device}",
        }
