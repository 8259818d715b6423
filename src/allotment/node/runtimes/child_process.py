"""A command on this machine under a launcher, and its streams: what the runtimes with real processes share.

The agent holds the only writing end of a pipe that the launcher reads, so whatever ends the agent ends the command.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, SubprocessStreamProtocol
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from allotment.node.runtimes import launcher
from allotment.node.runtimes.runtime import Write

_CHUNK: Final = 64 * 1024
#: After a launcher was itself killed: how long what it started may keep the streams open.
_LEFT_OVER_SECONDS: Final = 1.0
_TYPING_SECONDS: Final = 0.02
_END_OF_TRANSMISSION: Final = b"\x04"


class ProcessOrder(NamedTuple):
    """A command to run: words, the whole environment, where. ``tty``: its streams are a terminal."""

    words: Sequence[str]
    environment: Mapping[str, str]
    directory: Path
    tty: bool = False


class _Streams(SubprocessStreamProtocol):
    """A process' streams; knows its exit at once, while asyncio's own waits until nobody holds the streams."""

    stdin: asyncio.StreamWriter | None
    stdout: asyncio.StreamReader | None
    stderr: asyncio.StreamReader | None

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit, loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        """The loop's word."""
        super().process_exited()
        self.exited.set()


class Child:
    """A command that runs. Made by :meth:`start`; :meth:`finish` must be awaited."""

    def __init__(
        self, transport: asyncio.SubprocessTransport, streams: _Streams, lifeline: int, terminal: int | None
    ) -> None:
        self._transport = transport
        self._streams = streams
        self._lifeline = lifeline
        self._terminal = terminal

    @classmethod
    async def start(cls, order: ProcessOrder, *, stdin: bool = False, one_stream: bool = True) -> Child:
        """Start a command. ``one_stream``: what it says on stderr comes with what it says on stdout. Raises OSError."""
        loop = asyncio.get_running_loop()
        streams = (PIPE if stdin else DEVNULL, PIPE, STDOUT if one_stream else PIPE)
        ours = theirs = None
        if order.tty:
            ours, theirs = os.openpty()
            streams = (theirs, theirs, theirs)
        listening, lifeline = os.pipe()
        try:
            with tempfile.TemporaryFile() as paper:
                paper.write(json.dumps({**order._asdict(), "directory": str(order.directory)}).encode())
                paper.seek(0)
                transport, protocol = await loop.subprocess_exec(
                    lambda: _Streams(_CHUNK, loop),
                    # Neither the user's site nor the command's environment has a say in the launcher.
                    sys.executable, "-I", "-S", str(launcher.__file__), str(paper.fileno()), str(listening),
                    stdin=streams[0], stdout=streams[1], stderr=streams[2], env={}, cwd="/",
                    start_new_session=True, pass_fds=(paper.fileno(), listening),
                )  # fmt: skip
        except BaseException:
            os.close(lifeline)
            if ours is not None:
                os.close(ours)
            raise
        finally:
            os.close(listening)
            if theirs is not None:
                os.close(theirs)
        return cls(transport, protocol, lifeline, ours)

    def terminate(self) -> None:
        """SIGTERM to the command and all of its group."""
        self._signal(b"T")

    def kill(self) -> None:
        """SIGKILL to the command and to all that it started."""
        self._signal(b"K")

    async def finish(self, stdin: AsyncIterator[bytes] | None, stdout: Write, stderr: Write | None = None) -> int:
        """Carry its streams until it ends; its exit code. Whatever ends this early ends the command."""
        feeding: asyncio.Task[None] | None = None
        try:
            async with asyncio.TaskGroup() as group:
                if self._terminal is not None:
                    carrying = [group.create_task(_read_along(self._terminal, stdout))]
                else:
                    streams = ((self._streams.stdout, stdout), (self._streams.stderr, stderr))
                    carrying = [group.create_task(_carry(out, to)) for out, to in streams if out and to]
                if stdin is not None:
                    feeding = group.create_task(self._feed(stdin))
                await self._streams.exited.wait()
                code = self._transport.get_returncode() or 0
                if code < 0:  # not the launcher's own words: it was killed
                    await asyncio.wait(carrying, timeout=_LEFT_OVER_SECONDS)
                    for task in carrying:
                        task.cancel()
                else:
                    await asyncio.wait(carrying)
                if feeding is not None:
                    feeding.cancel()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            self._let_go()
            await self._streams.exited.wait()
            self._transport.close()  # streams that nobody read to their end
        return code if code >= 0 else 128 - code

    def _signal(self, word: bytes) -> None:
        if self._lifeline >= 0:
            with suppress(BrokenPipeError):  # it has ended
                os.write(self._lifeline, word)

    def _let_go(self) -> None:
        lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)
        terminal, self._terminal = self._terminal, None
        if terminal is not None:
            os.close(terminal)

    async def _feed(self, stdin: AsyncIterator[bytes]) -> None:
        pipe = self._streams.stdin
        with suppress(BrokenPipeError, ConnectionResetError):  # it reads no more
            async for data in stdin:
                if pipe is not None:
                    pipe.write(data)
                    await pipe.drain()
                elif self._terminal is not None:
                    await _type(self._terminal, data)
            if pipe is not None:
                pipe.close()
            elif self._terminal is not None:
                await _type(self._terminal, _END_OF_TRANSMISSION)


async def _carry(stream: asyncio.StreamReader, write: Write) -> None:
    while data := await stream.read(_CHUNK):
        await write(data)


async def _read_along(terminal: int, write: Write) -> None:
    os.set_blocking(terminal, False)
    while True:
        try:
            data = os.read(terminal, _CHUNK)
        except BlockingIOError:
            await _readable(terminal)
            continue
        except OSError:  # EIO: nobody holds the other end any more
            return
        await write(data)


async def _readable(file: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(file, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(file)


async def _type(terminal: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(terminal, data) :]
        except BlockingIOError:  # the program does not read what was typed
            await asyncio.sleep(_TYPING_SECONDS)
        except OSError:
            return
