"""Generates the pictures: chooses location, zoom and colours at random until a probe has enough contrast, and draws."""

from __future__ import annotations

import time
from random import Random
from typing import Final, NamedTuple

from gpu_fractal.caption import draw_caption
from gpu_fractal.device_info import DeviceInfo
from gpu_fractal.drawing import Backend, Size, Tones, fit_tones
from gpu_fractal.locations import View, random_view
from gpu_fractal.png import encode_png
from gpu_fractal.schemes import SCHEMES, Scheme, palette

#: The width of a probe in points, and the maximum number of probes for a picture.
_PROBE_WIDTH: Final = 48
_MAX_PROBES: Final = 12


class Picture(NamedTuple):
    """A picture as a PNG file. ``seconds``: the time on the device; ``drawn``: the monotonic time when it finished."""

    number: int
    png: bytes
    view: View
    scheme: Scheme
    seconds: float
    drawn: float


class PictureGenerator:
    """Draws one picture after another; the same seed produces the same pictures."""

    def __init__(self, backend: Backend, about: DeviceInfo, size: Size, seed: int) -> None:
        self._backend = backend
        self._about = about
        self._size = size
        self._random = Random(seed)
        self._number = 0

    def draw(self) -> Picture:
        """Draw the next picture."""
        view, tones, scheme = self._choose()
        start = time.monotonic()
        pixels = self._backend.draw(view, self._size, tones, palette(scheme))
        drawn = time.monotonic()
        self._number += 1
        draw_caption(pixels, self._size, self._about, view, self._number)
        data = encode_png(pixels, self._size.width, self._size.height, self._metadata(view, scheme))
        return Picture(self._number, data, view, scheme, drawn - start, drawn)

    def _choose(self) -> tuple[View, Tones, Scheme]:
        random = self._random
        probe = Size(_PROBE_WIDTH, max(_PROBE_WIDTH * self._size.height // self._size.width, 1))
        for _ in range(_MAX_PROBES):
            view, phase, rounds, scheme = (
                random_view(random),
                random.random(),
                random.uniform(0.8, 1.3),
                random.choice(SCHEMES),
            )
            if tones := fit_tones(self._backend.counts(view, probe), phase, rounds):
                return view, tones, scheme
        return view, Tones(0.0, 0.3, phase), scheme

    def _metadata(self, view: View, scheme: Scheme) -> dict[str, str]:
        where = f"centre {view.x!r}, {view.y!r}; width {view.width:.3g}"
        return {
            "Title": f"Mandelbrot set, {view.place}",
            "Description": f"{where}; {view.limit} steps; colours {scheme.name}",
            "Software": f"gpu_fractal on {self._about.device}",
        }
