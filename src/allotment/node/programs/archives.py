"""``tar`` as ``kubectl cp`` uses it: archives on the standard output and input."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Iterator
from typing import Final

from allotment.node.container_files import MAX_BYTES, Directory, Entry, File, absolute
from allotment.node.programs.container_view import ContainerView
from allotment.node.shell_language.process import Process
from allotment.node.shell_language.syntax import NotSimulated

_IGNORED: Final = frozenset({"--no-same-permissions", "--no-same-owner", "--overwrite"})
_FAILED: Final = 2


async def tar(process: Process, inside: ContainerView) -> int:
    """Create, extract or list an archive. Compressed ones are not simulated."""
    letters, directory, path, operands = "", process.directory, "", list[str]()
    rest = list(process.words[1:])
    while rest:
        word = rest.pop(0)
        if word in _IGNORED:
            continue
        if word == "-C" and rest:
            directory = absolute(rest.pop(0), directory)
        elif word.startswith("--"):
            raise NotSimulated(" ".join(process.words))
        elif (word.startswith("-") and len(word) > 1) or not letters:
            letters += word.lstrip("-")
            if word.endswith("f") and rest:
                path = rest.pop(0)
        else:
            operands.append(word)
    if set(letters) - set("cxtfmvpo") or "f" not in letters:
        raise NotSimulated(" ".join(process.words))
    if "c" in letters:
        return await _create(process, operands, directory, path, inside)
    if path == "-":
        data = await process.streams.input.all(MAX_BYTES * 2)
    else:
        data = await process.files.contents(path, process.directory)
    return await _extract(process, data, directory, lists="t" in letters, verbose="v" in letters)


async def _create(process: Process, operands: list[str], directory: str, path: str, inside: ContainerView) -> int:
    written, code = io.BytesIO(), 0
    with tarfile.open(fileobj=written, mode="w") as archive:
        for operand in operands:
            entry = await process.files.find(operand, directory)
            if entry is None:
                await process.fail(f"{operand}: Cannot stat: No such file or directory")
                code = await process.fail("Exiting with failure status due to previous errors", _FAILED)
                continue
            if operand.startswith("/"):
                await process.fail("Removing leading `/' from member names")
            for name, each in _entries(operand.strip("/") or ".", entry):
                member = tarfile.TarInfo(name)
                member.mode = each.mode
                member.uid, member.gid = inside.user.uid, inside.user.gid
                member.mtime = int(inside.clock.moment().timestamp())
                if isinstance(each, Directory):
                    member.type = tarfile.DIRTYPE
                    archive.addfile(member)
                elif isinstance(each, File):
                    member.size = len(each.data)
                    archive.addfile(member, io.BytesIO(bytes(each.data)))
    if path == "-":
        await process.streams.out(written.getvalue())
    else:
        await process.files.write(path, written.getvalue(), process.directory)
    return code


def _entries(name: str, entry: Entry) -> Iterator[tuple[str, Entry]]:
    yield name, entry
    if isinstance(entry, Directory):
        for child, each in sorted(entry.children.items()):
            yield from _entries(posixpath.join(name, child), each)


async def _extract(process: Process, data: bytes, directory: str, *, lists: bool, verbose: bool) -> int:
    if not isinstance(await process.files.find(directory), Directory):
        await process.fail(f"{directory}: Cannot open: No such file or directory")
        return await process.fail("Error is not recoverable: exiting now", _FAILED)
    code = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                if lists or verbose:
                    await process.print(f"{member.name}\n")
                # Paths cannot leave the container's files, which are only in memory.
                path = absolute(member.name.lstrip("/"), directory)
                try:
                    if not lists and path != directory:
                        await _extracted(process, archive, member, path)
                except OSError as error:
                    code = await process.fail(f"{member.name}: Cannot open: {error.strerror}", _FAILED)
    except tarfile.TarError:
        return await process.fail("This does not look like a tar archive", _FAILED)
    return code


async def _extracted(process: Process, archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
    if member.isdir():
        await process.files.make_directory(path, parents=True)
    elif member.isfile():
        await process.files.make_directory(posixpath.dirname(path), parents=True)
        source = archive.extractfile(member)
        await process.files.write(path, source.read() if source is not None else b"")
        entry = await process.files.find(path)
        if isinstance(entry, File):
            entry.mode = member.mode & 0o777
