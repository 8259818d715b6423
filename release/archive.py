"""Compressed tar archives whose bytes depend only on the members and the time."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterable
from typing import NamedTuple


class Member(NamedTuple):
    """A file of an archive."""

    name: str
    content: bytes
    executable: bool = False


def tar_gz(members: Iterable[Member], timestamp: int) -> bytes:
    """An archive of the members in the given order, without owners."""
    packed = io.BytesIO()
    # Without a file name in the header of gzip, which otherwise contains the one that is written.
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=timestamp) as compressed,
        tarfile.open(mode="w", fileobj=compressed, format=tarfile.USTAR_FORMAT) as archive,
    ):
        for member in members:
            header = tarfile.TarInfo(member.name)
            header.size, header.mtime = len(member.content), timestamp
            header.mode = 0o755 if member.executable else 0o644
            archive.addfile(header, io.BytesIO(member.content))
    return packed.getvalue()
