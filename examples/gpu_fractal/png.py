"""Encodes and decodes RGB pictures as PNG files."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_RGB_OF_8_BITS: Final = (8, 2, 0, 0, 0)


def encode_png(pixels: bytes | bytearray, width: int, height: int, text: Mapping[str, str] = {}) -> bytes:
    """Return RGB pixels as a PNG file. ``text``: metadata that image viewers show, in Latin-1.

    Raises ValueError if the pixels are not ``width`` times ``height``.
    """
    row = 3 * width
    if len(pixels) != row * height:
        raise ValueError(f"{width} x {height} pixels are {row * height} bytes, not {len(pixels)}")
    compressor = zlib.compressobj(6)
    compressed = bytearray()
    for offset in range(0, len(pixels), row):
        compressed += compressor.compress(b"\0" + pixels[offset : offset + row])
    compressed += compressor.flush()
    text_chunks = [
        _chunk(b"tEXt", key.encode("latin-1") + b"\0" + value.encode("latin-1", "replace"))
        for key, value in text.items()
    ]
    head = _chunk(b"IHDR", struct.pack(">II5B", width, height, *_RGB_OF_8_BITS))
    return b"".join((_SIGNATURE, head, *text_chunks, _chunk(b"IDAT", bytes(compressed)), _chunk(b"IEND", b"")))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))


def decode_pixels(data: bytes) -> tuple[int, int, bytes]:
    """Return width, height and pixels of a file from :func:`encode_png`. Raises ValueError for other files.

    >>> decode_pixels(encode_png(b"abcdef", 2, 1))
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
        raise ValueError("not a PNG file of this program: unsupported row format")
    return width, height, b"".join(rows[offset + 1 : offset + step] for offset in range(0, len(rows), step))


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    offset = len(_SIGNATURE)
    while data.startswith(_SIGNATURE) and offset + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, offset)
        yield data[offset + 4 : offset + 8], data[offset + 8 : offset + 8 + length]
        offset += 12 + length
