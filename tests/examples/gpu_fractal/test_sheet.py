import pytest

from gpu_fractal.png import decode_pixels, encode_png
from gpu_fractal.sheet import Group, contact_sheet


def picture(colour: int) -> bytes:
    return encode_png(bytes([colour]) * (3 * 40 * 25), 40, 25)


def pixel(data: bytes, colour: int) -> list[tuple[int, int]]:
    """The positions of the pictures with a colour."""
    width, height, pixels = decode_pixels(data)
    whole = bytes([colour]) * (3 * 40)
    found: list[tuple[int, int]] = []
    for row in range(height):
        line = pixels[3 * width * row : 3 * width * (row + 1)]
        if whole in line and not any(at == line.index(whole) // 3 and row < top + 25 for at, top in found):
            found.append((line.index(whole) // 3, row))
    return found


def test_groups_are_in_one_row_if_they_fit() -> None:
    one, two, three = (picture(colour) for colour in (101, 102, 103))
    data = contact_sheet(
        [Group("one", "a", [one]), Group("two", "b", [two, two]), Group("three", "c", [three] * 3)], columns=3
    )
    ((x1, y1),), ((x2, y2), *_), ((x3, y3), *_) = (pixel(data, colour) for colour in (101, 102, 103))
    assert y1 == y2 < y3
    assert x1 == x3 < x2


def test_a_group_larger_than_a_row_is_continued_in_the_next() -> None:
    _, low, _ = decode_pixels(contact_sheet([Group("a", "", [picture(9)] * 3)], columns=3))
    _, high, _ = decode_pixels(contact_sheet([Group("a", "", [picture(9)] * 4)], columns=3))
    assert high - low > 25


def test_pictures_must_have_the_same_size() -> None:
    with pytest.raises(ValueError, match="expected pictures of one size, found 2"):
        contact_sheet([Group("a", "", [picture(1), encode_png(bytes(3), 1, 1)])], columns=2)


@pytest.mark.parametrize("data", [b"", b"GIF89a", encode_png(bytes(3), 1, 1)[:-30]])
def test_png_files_of_other_programs_are_rejected(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a PNG file of this program"):
        decode_pixels(data)
