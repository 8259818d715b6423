import struct
import zlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_fractal.png import encode_png


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
def test_decoded_pixels_equal_the_encoded_ones(width: int, height: int, random: Random) -> None:
    pixels = random.randbytes(3 * width * height)
    parts = dict(chunks(encode_png(pixels, width, height)))
    assert parts[b"IHDR"] == struct.pack(">II5B", width, height, 8, 2, 0, 0, 0)
    rows = zlib.decompress(parts[b"IDAT"])
    step = 3 * width + 1
    assert b"".join(rows[row * step + 1 : (row + 1) * step] for row in range(height)) == pixels


def test_a_picture_contains_its_metadata() -> None:
    kinds = chunks(encode_png(b"\0\0\0", 1, 1, {"Title": "Mandelbrot set, café"}))
    assert (b"tEXt", b"Title\0Mandelbrot set, caf\xe9") in kinds
    assert kinds[-1] == (b"IEND", b"")


def test_the_number_of_pixels_must_match_the_size() -> None:
    with pytest.raises(ValueError, match="2 x 2 pixels are 12 bytes, not 9"):
        encode_png(bytes(9), 2, 2)
