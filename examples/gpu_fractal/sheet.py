"""Composes a contact sheet: one picture with groups of pictures under headings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from gpu_fractal.lettering import draw_text
from gpu_fractal.png import decode_pixels, encode_png
from gpu_fractal.schemes import Rgb

_BACKGROUND: Final = bytes((14, 17, 23))
_WHITE: Final[Rgb] = (240, 244, 250)
_GRAY: Final[Rgb] = (140, 152, 170)
_GAP: Final = 10
_ROW_GAP: Final = 26
_MARGIN: Final = 28
_HEADING: Final = 58


class Group(NamedTuple):
    """Pictures that belong together: PNG files of one size, made here. ``words``: a line under the title."""

    title: str
    subtitle: str
    pictures: Sequence[bytes]


class _GroupPosition(NamedTuple):
    group: Group
    column: int
    row: int


def contact_sheet(groups: Sequence[Group], columns: int) -> bytes:
    """Return a PNG file with all pictures, ``columns`` per row; a group that does not fit into a row starts a new one.

    Raises ValueError if there are no pictures, or if they are of different sizes.
    """
    pictures = {picture: decode_pixels(picture) for group in groups for picture in group.pictures}
    sizes = {(width, height) for width, height, _ in pictures.values()}
    if len(sizes) != 1:
        raise ValueError(f"expected pictures of one size, found {len(sizes)}")
    ((width, height),) = sizes
    positions = list(_layout(groups, columns))
    rows = positions[-1].row + 1 + (len(positions[-1].group.pictures) - 1) // columns
    total_width = 2 * _MARGIN + columns * (width + _GAP) - _GAP
    total_height = 2 * _MARGIN + rows * (_HEADING + height + _ROW_GAP) - _ROW_GAP
    pixels = bytearray(_BACKGROUND * (total_width * total_height))
    for group, column, row in positions:
        x, y = _MARGIN + column * (width + _GAP), _MARGIN + row * (_HEADING + height + _ROW_GAP)
        draw_text(pixels, total_width, group.title, x, y + 20, 15.0, _WHITE)
        draw_text(pixels, total_width, group.subtitle, x, y + 42, 10.0, _GRAY)
        for number, picture in enumerate(group.pictures):
            left = _MARGIN + (column + number) % columns * (width + _GAP)
            top = y + _HEADING + (column + number) // columns * (_HEADING + height + _ROW_GAP)
            _paste(pixels, total_width, pictures[picture][2], width, left, top)
    return encode_png(pixels, total_width, total_height)


def _layout(groups: Sequence[Group], columns: int) -> Iterator[_GroupPosition]:
    column = row = 0
    for group in groups:
        if column and column + len(group.pictures) > columns:
            column, row = 0, row + 1
        yield _GroupPosition(group, column, row)
        column += len(group.pictures)
        column, row = column % columns, row + column // columns


def _paste(paper: bytearray, across: int, pixels: bytes, width: int, left: int, top: int) -> None:
    for number in range(len(pixels) // (3 * width)):
        offset = 3 * ((top + number) * across + left)
        paper[offset : offset + 3 * width] = pixels[3 * width * number : 3 * width * (number + 1)]
