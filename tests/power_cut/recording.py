"""Runs a program and records its file operations and its output, in their order."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests import preload

_SOURCE: Final = Path(__file__).with_name("recorder.c")
_HEAD: Final = struct.Struct("<cHHIQQ")
_ROOT: Final = Path(__file__).parent.parent.parent


class Operation(NamedTuple):
    """One operation; ``type`` is one of those of ``recorder.c``.

    C: a file was created, O: a folder was opened, W: data were written at a position, T: a file was truncated to it;
    B, S: a sync of a thread (``position``) began, ended; R, L, U, M, D: rename, link, unlink, mkdir, rmdir; P: the
    program printed ``data``.
    """

    type: str
    path: str
    target: str
    identity: int
    position: int
    data: bytes


def compiled(folder: Path) -> Path | None:
    """Compile the recorder; None if there is no C compiler, or the system is not Linux."""
    return preload.compiled(_SOURCE, folder)


def record(library: Path, module: str, folder: Path, log: Path, *arguments: str) -> list[Operation]:
    """Run ``python -m module folder …``; return what it did in the folder, which must be empty."""
    environment = os.environ | {
        "LD_PRELOAD": str(library), "POWER_CUT_FOLDER": str(folder), "POWER_CUT_LOG": str(log),
        "PYTHONPATH": os.pathsep.join((str(_ROOT), *sys.path[1:])), "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", module, str(folder), *arguments]
    result = subprocess.run(command, env=environment, cwd=_ROOT, stdout=subprocess.PIPE, check=False)
    if result.returncode:
        raise RuntimeError(f"{module} failed: {result.stdout.decode()[-2000:]}")
    return list(_parsed(log.read_bytes()))


def _parsed(content: bytes) -> Iterator[Operation]:
    start = 0
    while start < len(content):
        kind, first, second, size, identity, position = _HEAD.unpack_from(content, start)
        path = start + _HEAD.size
        target, data = path + first, path + first + second
        start = data + size
        yield Operation(
            kind.decode(), content[path:target].decode(), content[target:data].decode(), identity, position,
            content[data:start],
        )  # fmt: skip
