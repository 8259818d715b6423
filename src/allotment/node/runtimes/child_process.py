"""A command that runs under the launcher, with its streams; used by the runtimes with real processes.

The agent holds the only writing end of a pipe that the launcher reads, so the end of the agent ends the command.
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
#: Seconds that left-over processes may keep the streams open after their launcher was killed.
_LEFT_OVER_SECONDS: Final = 1.0
_TYPING_SECONDS: Final = 0.02
_END_OF_TRANSMISSION: Final = b"\x04"


class ProcessOrder(NamedTuple):
    """A command to run: words, complete environment, working directory. ``tty``: its streams are a terminal."""

    words: Sequence[str]
    environment: Mapping[str, str]
    directory: Path
    tty: bool = False


class _Streams(SubprocessStreamProtocol):
    """A process's streams; ``exited`` is set immediately at exit, while asyncio waits until the streams are closed."""

    stdin: asyncio.StreamWriter | None
    stdout: asyncio.StreamReader | None
    stderr: asyncio.StreamReader | None

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit, loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        """Called by the event loop."""
        super().process_exited()
        self.exited.set()


class Child:
    """A running command. Created by :meth:`start`; :meth:`finish` must be awaited."""

    def __init__(
        self, transport: asyncio.SubprocessTransport, streams: _Streams, lifeline: int, terminal: int | None
    ) -> None:
        self._transport = transport
        self._streams = streams
        self._lifeline = lifeline
        self._terminal = terminal

    @classmethod
    async def start(cls, order: ProcessOrder, *, stdin: bool = False, one_stream: bool = True) -> Child:
        """Start a command. ``one_stream``: its stderr is merged into stdout. Raises OSError."""
        loop = asyncio.get_running_loop()
        streams = (PIPE if stdin else DEVNULL, PIPE, STDOUT if one_stream else PIPE)
        agent_end = command_end = None
        if order.tty:
            agent_end, command_end = os.openpty()
            streams = (command_end, command_end, command_end)
        listening, lifeline = os.pipe()
        try:
            with tempfile.TemporaryFile() as order_file:
                order_file.write(json.dumps({**order._asdict(), "directory": str(order.directory)}).encode())
                order_file.seek(0)
                transport, protocol = await loop.subprocess_exec(
                    lambda: _Streams(_CHUNK, loop),
                    # Neither the user's site packages nor the command's environment affect the launcher.
                    sys.executable, "-I", "-S", str(launcher.__file__), str(order_file.fileno()), str(listening),
                    stdin=streams[0], stdout=streams[1], stderr=streams[2], env={}, cwd="/",
                    start_new_session=True, pass_fds=(order_file.fileno(), listening),
                )  # fmt: skip
        except BaseException:
            os.close(lifeline)
            if agent_end is not None:
                os.close(agent_end)
            raise
        finally:
            os.close(listening)
            if command_end is not None:
                os.close(command_end)
        return cls(transport, protocol, lifeline, agent_end)

    def terminate(self) -> None:
        """Send SIGTERM to the command's process group."""
        self._signal(b"T")

    def kill(self) -> None:
        """Send SIGKILL to the command and all processes that it started."""
        self._signal(b"K")

    async def finish(self, stdin: AsyncIterator[bytes] | None, stdout: Write, stderr: Write | None = None) -> int:
        """Copy its streams until it ends and return its exit code. Cancelling this kills the command."""
        feeding: asyncio.Task[None] | None = None
        try:
            async with asyncio.TaskGroup() as group:
                if self._terminal is not None:
                    carrying = [group.create_task(_copy_terminal(self._terminal, stdout))]
                else:
                    streams = ((self._streams.stdout, stdout), (self._streams.stderr, stderr))
                    carrying = [group.create_task(_copy(out, to)) for out, to in streams if out and to]
                if stdin is not None:
                    feeding = group.create_task(self._feed(stdin))
                await self._streams.exited.wait()
                code = self._transport.get_returncode() or 0
                if code < 0:  # the launcher was killed
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
            self._close()
            await self._streams.exited.wait()
            self._transport.close()  # closes streams with unread data
        return code if code >= 0 else 128 - code

    def _signal(self, word: bytes) -> None:
        if self._lifeline >= 0:
            with suppress(BrokenPipeError):  # it has ended
                os.write(self._lifeline, word)

    def _close(self) -> None:
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


async def _copy(stream: asyncio.StreamReader, write: Write) -> None:
    while data := await stream.read(_CHUNK):
        await write(data)


async def _copy_terminal(terminal: int, write: Write) -> None:
    os.set_blocking(terminal, False)
    while True:
        try:
            data = os.read(terminal, _CHUNK)
        except BlockingIOError:
            await _readable(terminal)
            continue
        except OSError:  # EIO: the other end is closed
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
