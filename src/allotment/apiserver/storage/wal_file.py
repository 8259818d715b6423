"""Checks SQLite's WAL: frames after a damaged one, which SQLite skips without an error.

A power cut can leave one incomplete transaction at the end, which was not acknowledged: each transaction is synced
before the next one begins. Therefore two or more complete transactions after an invalid frame are damage, and
acknowledged writes are lost. The format is described in https://www.sqlite.org/fileformat2.html#walformat.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_HEADER: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_BIG_ENDIAN: Final = 0x377F0683
_LITTLE_ENDIAN: Final = 0x377F0682
_MASK: Final = 0xFFFFFFFF


#: The message for damage; {} is the number of transactions.
DAMAGE: Final = "the log of SQLite has a damaged page, after which {} transactions are not read"


def content_of(path: Path) -> bytes:
    """The content of a WAL; empty if there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def unread_transactions(content: bytes) -> int:
    """The number of transactions after the first invalid frame; 0 if at most one."""
    header = _valid_header(content)
    if header is None:
        return 0
    sums, number = header.sums, 0
    for start, frame in _frames(content, header.page_size, header.salts):
        page = start + _FRAME.size
        sums = _checksum(content[start : start + 8], header.order, *sums)
        sums = _checksum(content[page : page + header.page_size], header.order, *sums)
        if sums != frame[4:]:
            break
        number += 1
    return transactions_after(content, number)


def transactions_after(content: bytes, frames: int) -> int:
    """The number of transactions after the frames that SQLite has read; 0 if at most one."""
    header = _valid_header(content)
    if header is None:
        return 0
    found = list(_frames(content, header.page_size, header.salts))[frames:]
    commits = sum(frame[1] != 0 for _, frame in found)
    return commits if commits > 1 else 0


class _Header(NamedTuple):
    """The header of a WAL. ``sums``: the checksum of the header, which that of the first frame continues."""

    page_size: int
    order: str
    salts: tuple[int, int]
    sums: tuple[int, int]


def _valid_header(content: bytes) -> _Header | None:
    if len(content) < _HEADER.size:
        return None
    magic, _, page_size, _, salt, other_salt, first, second = _HEADER.unpack_from(content)
    if magic not in (_BIG_ENDIAN, _LITTLE_ENDIAN) or not 512 <= page_size <= 65536:
        return None
    order = ">" if magic == _BIG_ENDIAN else "<"
    if _checksum(content[:24], order, 0, 0) != (first, second):
        return None
    return _Header(page_size, order, (salt, other_salt), (first, second))


def _frames(content: bytes, page_size: int, salts: tuple[int, int]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The position and header of each frame; those of an earlier round, which are overwritten later, are left out."""
    size = _FRAME.size + page_size
    for start in range(_HEADER.size, len(content) - size + 1, size):
        frame = _FRAME.unpack_from(content, start)
        if frame[2:4] != salts:
            return
        yield start, frame


def _checksum(data: bytes, order: str, first: int, second: int) -> tuple[int, int]:
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & _MASK
        second = (second + odd + first) & _MASK
    return first, second
