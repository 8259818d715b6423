"""Many pictures on one: groups under headings, as on a photographer's contact sheet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from gpu_fractal.lettering import write
from gpu_fractal.png import pixels_of, png
from gpu_fractal.schemes import Rgb

_PAPER: Final = bytes((14, 17, 23))
_WHITE: Final[Rgb] = (240, 244, 250)
_SOFT: Final[Rgb] = (140, 152, 170)
_GAP: Final = 10
_BETWEEN: Final = 26
_MARGIN: Final = 28
_HEADING: Final = 58


class Group(NamedTuple):
    """Pictures that belong together: PNG files of one size, made here. ``words``: a line under the title."""

    title: str
    words: str
    pictures: Sequence[bytes]


class _Placed(NamedTuple):
    group: Group
    column: int
    row: int


def sheet(groups: Sequence[Group], columns: int) -> bytes:
    """A PNG file with all pictures, so many in a row; a group that does not fit into a row begins the next.

    Raises ValueError if there are no pictures, or if they are of different sizes.
    """
    pictures = {picture: pixels_of(picture) for group in groups for picture in group.pictures}
    sizes = {(width, height) for width, height, _ in pictures.values()}
    if len(sizes) != 1:
        raise ValueError(f"wanted pictures of one size, found {len(sizes)}")
    ((width, height),) = sizes
    placed = list(_placed(groups, columns))
    rows = placed[-1].row + 1 + (len(placed[-1].group.pictures) - 1) // columns
    across = 2 * _MARGIN + columns * (width + _GAP) - _GAP
    down = 2 * _MARGIN + rows * (_HEADING + height + _BETWEEN) - _BETWEEN
    paper = bytearray(_PAPER * (across * down))
    for group, column, row in placed:
        x, y = _MARGIN + column * (width + _GAP), _MARGIN + row * (_HEADING + height + _BETWEEN)
        write(paper, across, group.title, x, y + 20, 15.0, _WHITE)
        write(paper, across, group.words, x, y + 42, 10.0, _SOFT)
        for number, picture in enumerate(group.pictures):
            left = _MARGIN + (column + number) % columns * (width + _GAP)
            top = y + _HEADING + (column + number) // columns * (_HEADING + height + _BETWEEN)
            _paste(paper, across, pictures[picture][2], width, left, top)
    return png(paper, across, down)


def _placed(groups: Sequence[Group], columns: int) -> Iterator[_Placed]:
    column = row = 0
    for group in groups:
        if column and column + len(group.pictures) > columns:
            column, row = 0, row + 1
        yield _Placed(group, column, row)
        column += len(group.pictures)
        column, row = column % columns, row + column // columns


def _paste(paper: bytearray, across: int, pixels: bytes, width: int, left: int, top: int) -> None:
    for number in range(len(pixels) // (3 * width)):
        at = 3 * ((top + number) * across + left)
        paper[at : at + 3 * width] = pixels[3 * width * number : 3 * width * (number + 1)]
