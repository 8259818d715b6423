"""PNG files: a few chunks around what zlib makes of rows of pixels."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
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
