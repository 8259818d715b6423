"""The redirections of a command: files in the container's memory, and copies of its streams."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from allotment.node.container_files import ContainerFiles, Device, Directory, failure
from allotment.node.shell_language.expansion import Expansion
from allotment.node.shell_language.streams import Input, Streams, Write, discard
from allotment.node.shell_language.syntax import NotSimulated, Redirection


async def redirected(
    redirections: Sequence[Redirection], streams: Streams, expansion: Expansion, files: ContainerFiles, directory: str
) -> Streams:
    """The streams of a command with redirections. Raises OSError, and NotSimulated for other file descriptors."""
    for redirection in redirections:
        number, operator = redirection.number, redirection.operator
        if number > 2 and operator != "<<":
            raise NotSimulated(f"redirection of file descriptor {number}")
        text = await expansion.text(redirection.target)
        if operator == "<<":
            streams = streams._replace(input=_of(text.encode(errors="replace")))
        elif operator == "<<<":
            streams = streams._replace(input=_of(f"{text}\n".encode(errors="replace")))
        elif operator in (">&", "<&"):
            streams = await _copied(number, operator, text, streams, files, directory)
        elif operator in ("<", "<>"):
            streams = streams._replace(input=await _file(text, files, directory))
        else:
            write = await _opened(text, files, directory, append=operator.endswith(">>"))
            if operator.startswith("&"):
                streams = streams._replace(out=write, err=write)
            else:
                streams = _with(streams, number, write)
    return streams


async def _copied(
    number: int, operator: str, text: str, streams: Streams, files: ContainerFiles, directory: str
) -> Streams:
    if text == "-":
        return streams._replace(input=Input()) if number == 0 else _with(streams, number, discard)
    if text in ("1", "2") and number in (1, 2):
        return _with(streams, number, streams.out if text == "1" else streams.err)
    if text == "0" and number == 0:
        return streams
    if operator == ">&" and not text.isdigit():
        write = await _opened(text, files, directory, append=False)
        return streams._replace(out=write, err=write)
    raise NotSimulated(f"redirection {number}{operator}{text}")


def _with(streams: Streams, number: int, write: Write) -> Streams:
    if number == 0:
        raise NotSimulated("writing to the standard input")
    return streams._replace(out=write) if number == 1 else streams._replace(err=write)


def _of(data: bytes) -> Input:
    rest = [data]

    async def read() -> bytes:
        return rest.pop() if rest else b""

    return Input(read)


async def _file(path: str, files: ContainerFiles, directory: str) -> Input:
    entry = await files.find(path, directory)
    if isinstance(entry, Device) and path != "/dev/null":
        raise NotSimulated(f"reading {path}")
    if isinstance(entry, Directory):
        raise failure(errno.EISDIR, path)
    return _of(await files.contents(path, directory))


async def _opened(path: str, files: ContainerFiles, directory: str, *, append: bool) -> Write:
    """Create or truncate a file; returns what appends to it."""
    await files.write(path, b"", directory, append=append)
    if isinstance(await files.find(path, directory), Device):
        return discard

    async def write(data: bytes) -> None:
        await files.write(path, data, directory, append=True)

    return write
