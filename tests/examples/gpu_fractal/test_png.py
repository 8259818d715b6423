import struct
import zlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_fractal.png import png


def chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    found, at = [], 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length)[0] == zlib.crc32(kind + body)
        found.append((kind, body))
        at += 12 + length
    return found


@given(st.integers(1, 9), st.integers(1, 9), st.randoms(use_true_random=False))
def test_what_goes_in_comes_out(width: int, height: int, dice: Random) -> None:
    pixels = dice.randbytes(3 * width * height)
    parts = dict(chunks(png(pixels, width, height)))
    assert parts[b"IHDR"] == struct.pack(">II5B", width, height, 8, 2, 0, 0, 0)
    rows = zlib.decompress(parts[b"IDAT"])
    step = 3 * width + 1
    assert b"".join(rows[row * step + 1 : (row + 1) * step] for row in range(height)) == pixels


def test_a_picture_says_what_it_shows() -> None:
    kinds = chunks(png(b"\0\0\0", 1, 1, {"Title": "Mandelbrot set, café"}))
    assert (b"tEXt", b"Title\0Mandelbrot set, caf\xe9") in kinds
    assert kinds[-1] == (b"IEND", b"")


def test_pixels_must_fill_the_picture() -> None:
    with pytest.raises(ValueError, match="2 x 2 pixels are 12 bytes, not 9"):
        png(bytes(9), 2, 2)
