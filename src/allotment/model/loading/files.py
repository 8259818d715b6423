"""Files, folders and standard input as the command line names them.

A folder means its ``*.yaml``, ``*.yml`` and ``*.json`` files, sorted, and those of its folders; hidden ones are left
out. This module and no other of the lower floors reads files, and only those it is told to.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from allotment.model.loading.manifest_text import LoadResult, load_text
from allotment.model.problems import InputProblem, Position

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_MOST_BYTES: Final = 1 << 30
_PROBE: Final = 1 << 16


def load_paths(paths: Iterable[str | os.PathLike[str]], stdin: BinaryIO | None = None) -> LoadResult:
    """The documents of files, folders and, for ``-``, of ``stdin``, in the order given; all problems together."""
    loaded = LoadResult([], [])
    for given in paths:
        path = os.fspath(given)
        if path == "-":
            _extend(loaded, _load_stream(stdin or io.BytesIO(), "<stdin>"))
        elif Path(path).is_dir():
            _load_folder(loaded, path)
        else:
            _extend(loaded, _load_file(path))
    return loaded


def _extend(loaded: LoadResult, more: LoadResult) -> None:
    loaded.documents.extend(more.documents)
    loaded.problems.extend(more.problems)


def _load_folder(loaded: LoadResult, folder: str) -> None:
    problems: list[InputProblem] = []
    files = list(manifest_files(folder, problems))
    loaded.problems.extend(problems)
    for file in files:
        _extend(loaded, _load_file(file))
    if not files and not problems:
        loaded.problems.append(_problem("no-files", "no .yaml, .yml or .json file in this folder", folder))


def manifest_files(folder: str, problems: list[InputProblem]) -> Iterator[str]:
    """The files that a folder means; what cannot be looked into is added to ``problems``."""

    def unreadable(error: OSError) -> None:
        where = error.filename if isinstance(error.filename, str) else folder
        problems.append(_problem("unreadable", f"cannot read the folder: {_reason(error)}", where))

    # Links to folders are not followed: a link back up would never end.
    for root, folders, files in os.walk(folder, onerror=unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(root) / name
            # A pipe in a folder would be waited for without end.
            if name.endswith(_SUFFIXES) and not name.startswith(".") and (path.is_file() or not path.exists()):
                yield str(path)


def _load_file(path: str) -> LoadResult:
    try:
        with open(path, "rb", buffering=0) as stream:  # noqa: PTH123 - the path's own spelling names the file
            mode = os.fstat(stream.fileno()).st_mode
            if stat.S_ISBLK(mode):
                return LoadResult([], [_problem("unreadable", "a device, not a file", path)])
            return _load_stream(stream, path)
    except OSError as error:
        return LoadResult([], [_problem("unreadable", f"cannot read the file: {_reason(error)}", path)])
    except ValueError:  # a NUL in the name
        return LoadResult([], [_problem("unreadable", "cannot read the file: bad file name", repr(path))])


def _load_stream(stream: BinaryIO | io.RawIOBase, file: str) -> LoadResult:
    parts: list[bytes] = []
    size = 0
    try:
        while part := stream.read(_PROBE if not parts else _MOST_BYTES - size + 1):
            if not parts and b"\0" in part and part[:2] not in (b"\xff\xfe", b"\xfe\xff"):
                at = part.index(b"\0")
                position = Position(file, part.count(b"\n", 0, at) + 1, at - part.rfind(b"\n", 0, at))
                packed = part.startswith(b"\x1f\x8b")
                words = "packed by gzip: unpack it first" if packed else "a binary file, not YAML or JSON"
                return LoadResult([], [InputProblem(code="bad-text", message=words, position=position)])
            parts.append(part)
            size += len(part)
            if size > _MOST_BYTES:
                return LoadResult([], [_problem("too-big", f"more than {_MOST_BYTES >> 20} MiB", file)])
    except OSError as error:
        return LoadResult([], [_problem("unreadable", f"cannot read: {_reason(error)}", file)])
    return load_text(b"".join(parts), file)


def _problem(code: str, message: str, file: str) -> InputProblem:
    return InputProblem(code=code, message=message, position=Position(file, 1, 1))


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
