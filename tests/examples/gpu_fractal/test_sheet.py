import pytest

from gpu_fractal.png import pixels_of, png
from gpu_fractal.sheet import Group, sheet


def picture(colour: int) -> bytes:
    return png(bytes([colour]) * (3 * 40 * 25), 40, 25)


def pixel(data: bytes, colour: int) -> list[tuple[int, int]]:
    """Where the pictures of a colour begin."""
    width, height, pixels = pixels_of(data)
    whole = bytes([colour]) * (3 * 40)
    found: list[tuple[int, int]] = []
    for row in range(height):
        line = pixels[3 * width * row : 3 * width * (row + 1)]
        if whole in line and not any(at == line.index(whole) // 3 and row < top + 25 for at, top in found):
            found.append((line.index(whole) // 3, row))
    return found


def test_groups_stand_side_by_side_while_there_is_room() -> None:
    one, two, three = (picture(colour) for colour in (101, 102, 103))
    data = sheet([Group("one", "a", [one]), Group("two", "b", [two, two]), Group("three", "c", [three] * 3)], columns=3)
    ((x1, y1),), ((x2, y2), *_), ((x3, y3), *_) = (pixel(data, colour) for colour in (101, 102, 103))
    assert y1 == y2 < y3
    assert x1 == x3 < x2


def test_a_group_larger_than_a_row_goes_on_in_the_next() -> None:
    _, low, _ = pixels_of(sheet([Group("a", "", [picture(9)] * 3)], columns=3))
    _, high, _ = pixels_of(sheet([Group("a", "", [picture(9)] * 4)], columns=3))
    assert high - low > 25


def test_pictures_must_be_of_one_size() -> None:
    with pytest.raises(ValueError, match="wanted pictures of one size, found 2"):
        sheet([Group("a", "", [picture(1), png(bytes(3), 1, 1)])], columns=2)


@pytest.mark.parametrize("data", [b"", b"GIF89a", png(bytes(3), 1, 1)[:-30]])
def test_other_peoples_pictures_are_not_read(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a PNG file of this program"):
        pixels_of(data)
