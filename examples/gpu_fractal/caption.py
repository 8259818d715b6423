"""The caption at the bottom of a picture: the device, its share and how it is shared; the location and the zoom."""

from __future__ import annotations

from functools import cache
from typing import Final

from gpu_fractal.device_info import DeviceInfo
from gpu_fractal.drawing import Size
from gpu_fractal.lettering import draw_text, text_width
from gpu_fractal.locations import View
from gpu_fractal.schemes import Rgb

_WHITE: Final[Rgb] = (255, 255, 255)
_GRAY: Final[Rgb] = (214, 220, 228)

#: Heights of capital letters in a picture 800 pixels wide, and the minimum readable height.
_LARGE_HEIGHT: Final = 14.0
_SMALL_HEIGHT: Final = 10.0
_MIN_HEIGHT: Final = 6.5
_DESIGN_WIDTH: Final = 800

#: The fraction of the brightness at the bottom edge.
_MIN_BRIGHTNESS: Final = 0.2


def draw_caption(pixels: bytearray, size: Size, device: DeviceInfo, view: View, number: int) -> None:
    """Draw the caption onto the pixels."""
    scale = size.width / _DESIGN_WIDTH
    large, small = max(_LARGE_HEIGHT * scale, _MIN_HEIGHT + 1), max(_SMALL_HEIGHT * scale, _MIN_HEIGHT)
    margin = round(1.5 * large)
    lower = size.height - margin
    upper = round(lower - small - 0.95 * large)
    _darken(pixels, size, round(6.5 * large))
    lower_text = " · ".join(words for words in (device.strategy, device.share) if words)
    if margin + text_width(lower_text, small) + margin > size.width:
        lower_text = lower_text.replace("multiprocessors", "SMs")
    left = [(device.device, upper, large, _WHITE), (lower_text, lower, small, _GRAY)]
    right = [(view.place, upper, small, _WHITE), (f"zoom {view.zoom:,.0f}× · no. {number}", lower, small, _GRAY)]
    for (text, baseline, height, colour), (right_text, _, right_height, right_colour) in zip(left, right, strict=True):
        draw_text(pixels, size.width, text, margin, baseline, height, colour)
        right_x = size.width - margin - text_width(right_text, right_height)
        # On a narrow picture the device is more important than the location.
        if right_x > margin + text_width(text, height) + margin:
            draw_text(pixels, size.width, right_text, right_x, baseline, right_height, right_colour)


def _darken(pixels: bytearray, size: Size, rows: int) -> None:
    """Fade the bottom rows towards black."""
    row = 3 * size.width
    for depth in range(rows):
        offset = (size.height - rows + depth) * row
        if offset >= 0:
            progress = min((depth + 1) / rows * 1.5, 1.0)
            pixels[offset : offset + row] = pixels[offset : offset + row].translate(_dimmed(round(100 * progress)))


@cache
def _dimmed(per_cent: int) -> bytes:
    smooth = (per_cent / 100) ** 2 * (3 - 2 * per_cent / 100)
    brightness = 1 - (1 - _MIN_BRIGHTNESS) * smooth
    return bytes(round(value * brightness) for value in range(256))
