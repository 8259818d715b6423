"""PNG files: a few chunks around what zlib makes of rows of pixels."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_RGB_OF_8_BITS: Final = (8, 2, 0, 0, 0)


def png(pixels: bytes | bytearray, width: int, height: int, text: Mapping[str, str] = {}) -> bytes:
    """A picture of red, green and blue bytes as a PNG file. ``text``: what image viewers show about it, in Latin-1.

    Raises ValueError if the pixels are not ``width`` times ``height``.
    """
    row = 3 * width
    if len(pixels) != row * height:
        raise ValueError(f"{width} x {height} pixels are {row * height} bytes, not {len(pixels)}")
    packer = zlib.compressobj(6)
    packed = bytearray()
    for begin in range(0, len(pixels), row):
        packed += packer.compress(b"\0" + pixels[begin : begin + row])
    packed += packer.flush()
    said = [
        _chunk(b"tEXt", key.encode("latin-1") + b"\0" + value.encode("latin-1", "replace"))
        for key, value in text.items()
    ]
    head = _chunk(b"IHDR", struct.pack(">II5B", width, height, *_RGB_OF_8_BITS))
    return b"".join((_SIGNATURE, head, *said, _chunk(b"IDAT", bytes(packed)), _chunk(b"IEND", b"")))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))


def pixels_of(data: bytes) -> tuple[int, int, bytes]:
    """Width, height and pixels of a file that :func:`png` made. Raises ValueError for others.

    >>> pixels_of(png(b"abcdef", 2, 1))
    (2, 1, b'abcdef')
    """
    chunks = dict(_chunks(data))
    try:
        width, height, *form = struct.unpack(">II5B", chunks[b"IHDR"])
        rows = zlib.decompress(chunks[b"IDAT"])
    except (KeyError, struct.error, zlib.error) as error:
        raise ValueError(f"not a PNG file of this program: {error}") from None
    step = 3 * width + 1
    if tuple(form) != _RGB_OF_8_BITS or len(rows) != step * height or any(rows[::step]):
        raise ValueError("not a PNG file of this program: rows of another form")
    return width, height, b"".join(rows[at + 1 : at + step] for at in range(0, len(rows), step))


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while data.startswith(_SIGNATURE) and at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += 12 + length
