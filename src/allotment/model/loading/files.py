"""Loads manifests from the files, folders and standard input that the command line names.

A folder stands for its ``*.yaml``, ``*.yml`` and ``*.json`` files and those of its subfolders, sorted, without hidden
ones. No other module of the lower layers reads files, and this one reads only the given paths.
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
_MAX_BYTES: Final = 1 << 30
_FIRST_READ: Final = 1 << 16


def load_paths(paths: Iterable[str | os.PathLike[str]], stdin: BinaryIO | None = None) -> LoadResult:
    """The documents and problems of files, folders and, for ``-``, of ``stdin``, in the given order."""
    loaded = LoadResult([], [])
    for argument in paths:
        path = os.fspath(argument)
        if path == "-":
            _append(loaded, _load_stream(stdin or io.BytesIO(), "<stdin>"))
        elif Path(path).is_dir():
            _load_folder(loaded, path)
        else:
            _append(loaded, _load_file(path))
    return loaded


def _append(loaded: LoadResult, result: LoadResult) -> None:
    loaded.documents.extend(result.documents)
    loaded.problems.extend(result.problems)


def _load_folder(loaded: LoadResult, folder: str) -> None:
    problems: list[InputProblem] = []
    files = list(manifest_files(folder, problems))
    loaded.problems.extend(problems)
    for file in files:
        _append(loaded, _load_file(file))
    if not files and not problems:
        loaded.problems.append(_problem("no-files", "no .yaml, .yml or .json files in this directory", folder))


def manifest_files(folder: str, problems: list[InputProblem]) -> Iterator[str]:
    """The manifest files below a folder. Folders that cannot be read are added to ``problems``."""

    def unreadable(error: OSError) -> None:
        where = error.filename if isinstance(error.filename, str) else folder
        problems.append(_problem("unreadable", f"cannot read the directory: {_reason(error)}", where))

    # Links to folders are not followed, because a link to a parent would lead to an endless walk.
    for root, folders, files in os.walk(folder, onerror=unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(root) / name
            # Reading a named pipe would block.
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
        return LoadResult([], [_problem("unreadable", "cannot read the file: invalid file name", repr(path))])


def _load_stream(stream: BinaryIO | io.RawIOBase, file: str) -> LoadResult:
    parts: list[bytes] = []
    size = 0
    try:
        while part := stream.read(_FIRST_READ if not parts else _MAX_BYTES - size + 1):
            if not parts and b"\0" in part and part[:2] not in (b"\xff\xfe", b"\xfe\xff"):
                offset = part.index(b"\0")
                position = Position(file, part.count(b"\n", 0, offset) + 1, offset - part.rfind(b"\n", 0, offset))
                is_gzip = part.startswith(b"\x1f\x8b")
                message = "compressed with gzip: decompress it first" if is_gzip else "a binary file, not YAML or JSON"
                return LoadResult([], [InputProblem(code="bad-text", message=message, position=position)])
            parts.append(part)
            size += len(part)
            if size > _MAX_BYTES:
                return LoadResult([], [_problem("too-big", f"larger than {_MAX_BYTES >> 20} MiB", file)])
    except OSError as error:
        return LoadResult([], [_problem("unreadable", f"cannot read: {_reason(error)}", file)])
    return load_text(b"".join(parts), file)


def _problem(code: str, message: str, file: str) -> InputProblem:
    return InputProblem(code=code, message=message, position=Position(file, 1, 1))


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
