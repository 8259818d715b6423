"""Programs that list and change files: ``ls``, ``mkdir``, ``rm``, ``cp``, ``mv`` and the like."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Mapping
from typing import Final

from allotment.node.container_files import Device, Directory, Entry, File, absolute, failure
from allotment.node.programs.container_view import ContainerView, Program, options
from allotment.node.shell_language.process import Process
from allotment.node.shell_language.syntax import NotSimulated

_DEEPEST: Final = 100


async def _ls(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "la1AdhtrRFn")
    if "R" in given or "t" in given:
        raise NotSimulated(" ".join(process.words))
    hidden = "a" in given or "A" in given
    operands = given.operands or ["."]
    code = 0
    for operand in operands:
        entry = await process.files.find(operand, process.directory)
        if entry is None:
            code = await process.fail(f"cannot access '{operand}': No such file or directory", 2)
            continue
        entries = {operand: entry}
        if isinstance(entry, Directory) and "d" not in given:
            entries = {name: entry.children[name] for name in sorted(entry.children)}
            entries = {name: each for name, each in entries.items() if hidden or not name.startswith(".")}
            if len(operands) > 1:
                await process.print(f"{operand}:\n")
        for name in sorted(entries, reverse="r" in given):
            line = _described(name, entries[name], inside) if "l" in given or "n" in given else name
            await process.print(f"{line}\n")
    return code


def _described(name: str, entry: Entry, inside: ContainerView) -> str:
    kind = "d" if isinstance(entry, Directory) else "c" if isinstance(entry, Device) else "-"
    letters = "".join(letter if entry.mode >> (8 - place) & 1 else "-" for place, letter in enumerate("rwxrwxrwx"))
    size = len(entry.data) if isinstance(entry, File) else 0
    owner = "root" if inside.user.uid == 0 else str(inside.user.uid)
    group = "root" if inside.user.gid == 0 else str(inside.user.gid)
    return f"{kind}{letters} 1 {owner} {group} {size} {inside.clock.moment():%b %e %H:%M} {name}"


async def _mkdir(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "pv", "m")
    if not given.operands:
        return await process.fail("missing operand")
    code = 0
    for path in given.operands:
        try:
            await process.files.make_directory(path, process.directory, parents="p" in given)
        except OSError as error:
            code = await process.fail(f"cannot create directory '{path}': {error.strerror}")
    return code


async def _rm(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "rfRv")
    recursive, forced = "r" in given or "R" in given, "f" in given
    if not given.operands and not forced:
        return await process.fail("missing operand")
    code = 0
    for path in given.operands:
        entry = await process.files.find(path, process.directory)
        if entry is None and forced:
            continue
        try:
            if isinstance(entry, Directory) and not recursive:
                raise failure(errno.EISDIR, path)
            await process.files.remove(path, process.directory, recursive=recursive)
        except OSError as error:
            code = await process.fail(f"cannot remove '{path}': {error.strerror}")
    return code


async def _rmdir(process: Process, inside: ContainerView) -> int:
    code = 0
    for path in options(process.words).operands:
        try:
            if not isinstance(await process.files.find(path, process.directory), Directory | None):
                raise failure(errno.ENOTDIR, path)
            await process.files.remove(path, process.directory)
        except OSError as error:
            code = await process.fail(f"failed to remove '{path}': {error.strerror}")
    return code


async def _touch(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "acm")
    code = 0
    for path in given.operands:
        entry = await process.files.find(path, process.directory)
        if isinstance(entry, Directory | Device) or (entry is None and "c" in given):
            continue
        try:
            await process.files.write(path, b"", process.directory, append=True)
        except OSError as error:
            code = await process.fail(f"cannot touch '{path}': {error.strerror}")
    return code


async def _copy(process: Process, inside: ContainerView) -> int:
    """``cp`` and ``mv``."""
    moves = process.words[0].endswith("mv")
    given = options(process.words, "rRafpvn" if not moves else "fvn")
    if len(given.operands) < 2:
        return await process.fail("missing file operand")
    *sources, target = given.operands
    into = isinstance(await process.files.find(target, process.directory), Directory)
    if len(sources) > 1 and not into:
        return await process.fail(f"target '{target}': No such file or directory")
    code = 0
    for source in sources:
        entry = await process.files.find(source, process.directory)
        path = posixpath.join(target, posixpath.basename(absolute(source, process.directory))) if into else target
        try:
            if entry is None:
                raise failure(errno.ENOENT, source)
            if isinstance(entry, Directory) and not moves and not {"r", "R", "a"} & given.given.keys():
                code = await process.fail(f"-r not specified; omitting directory '{source}'")
                continue
            inner, outer = absolute(path, process.directory), absolute(source, process.directory)
            if isinstance(entry, Directory) and f"{inner}/".startswith(f"{outer}/"):
                code = await process.fail(f"cannot copy a directory, '{source}', into itself, '{path}'")
                continue
            await _copied(process, entry, path, 0)
            if moves:
                await process.files.remove(source, process.directory, recursive=True)
        except OSError as error:
            code = await process.fail(f"cannot stat '{source}': {error.strerror}")
    return code


async def _copied(process: Process, entry: Entry, path: str, depth: int) -> None:
    if isinstance(entry, Directory) and depth < _DEEPEST:
        await process.files.make_directory(path, process.directory, parents=True)
        for name, child in list(entry.children.items()):
            await _copied(process, child, posixpath.join(path, name), depth + 1)
    elif isinstance(entry, File):
        await process.files.write(path, bytes(entry.data), process.directory)
        copy = await process.files.find(path, process.directory)
        if isinstance(copy, File):
            copy.mode = entry.mode


async def _chmod(process: Process, inside: ContainerView) -> int:
    """``chmod`` of octal modes and ``+x``; ``chown`` and ``chgrp`` only need the files."""
    operands = [word for word in process.words[1:] if word not in ("-R", "-f", "-v", "-h")]
    if len(operands) < 2:
        return await process.fail("missing operand")
    wanted, *paths = operands
    changes = process.words[0].endswith("chmod")
    octal = wanted.isdigit() and len(wanted) <= 4 and not set(wanted) - set("01234567")
    if changes and not octal and wanted not in ("+x", "a+x", "u+x", "ugo+x"):
        raise NotSimulated(" ".join(process.words))
    code = 0
    for path in paths:
        entry = await process.files.find(path, process.directory)
        if entry is None:
            code = await process.fail(f"cannot access '{path}': No such file or directory")
        elif changes and not isinstance(entry, Device):
            entry.mode = int(wanted, 8) & 0o777 if octal else entry.mode | 0o111
    return code


async def _basename(process: Process, inside: ContainerView) -> int:
    operands = options(process.words).operands
    if not operands:
        return await process.fail("missing operand")
    path = operands[0].rstrip("/") or "/"
    if process.words[0].endswith("dirname"):
        await process.print(f"{posixpath.dirname(path) or '.'}\n")
    else:
        name = posixpath.basename(path) or "/"
        suffix = operands[1] if len(operands) > 1 else ""
        await process.print(f"{name.removesuffix(suffix) if suffix and name != suffix else name}\n")
    return 0


async def _realpath(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "fem")
    for operand in given.operands:
        await process.print(f"{absolute(operand, process.directory)}\n")
    return 0


async def _mktemp(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "dqt", "p")
    above = given.given.get("p", "/tmp")
    names = await process.files.names(above, process.directory)
    path = posixpath.join(above, f"tmp.{len(names):010d}")
    if "d" in given:
        await process.files.make_directory(path, process.directory)
    else:
        await process.files.write(path, b"", process.directory)
    await process.print(f"{path}\n")
    return 0


FILE_PROGRAMS: Final[Mapping[str, Program]] = {
    "ls": _ls, "mkdir": _mkdir, "rm": _rm, "rmdir": _rmdir, "touch": _touch, "cp": _copy, "mv": _copy,
    "chmod": _chmod, "chown": _chmod, "chgrp": _chmod, "basename": _basename, "dirname": _basename,
    "realpath": _realpath, "readlink": _realpath, "mktemp": _mktemp,
}  # fmt: skip
