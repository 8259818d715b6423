"""The shell interpreter of a simulated container.

No process is started: every command is one of :mod:`.shell_commands`. Background commands run as tasks; ``wait`` waits
for them. Cancelling the shell cancels them too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from allotment.node.shell_parser import (
    Command,
    CommandList,
    ForLoop,
    IfStatement,
    Node,
    Pipeline,
    ShellSyntaxError,
    WhileLoop,
    Word,
    parse,
)

_MOST_PIECES: Final = 16


class ShellPipe:
    """A bounded pipe from one writer to one reader."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue(_MOST_PIECES)
        self._ended = False
        self._closed = False

    async def write(self, data: bytes) -> bool:
        """Write data; False if the reader has closed the pipe."""
        if data and not self._closed:
            await self._pieces.put(data)
        return not self._closed

    async def end(self) -> None:
        """Close the writing end."""
        if not self._closed:
            await self._pieces.put(b"")

    async def read(self) -> bytes:
        """The next data; empty at the end."""
        if self._ended:
            return b""
        data = await self._pieces.get()
        self._ended = not data
        return data

    def close(self) -> None:
        """Close the reading end and release a blocked writer."""
        self._closed = True
        while not self._pieces.empty():
            self._pieces.get_nowait()


#: Exit codes of ``sh`` for an unknown command and for a syntax error.
NOT_FOUND: Final = 127
MISUSED: Final = 2
#: Exit code of a command that writes to a closed pipe (SIGPIPE).
BROKEN_PIPE: Final = 141
#: Maximum nesting of shells. Each takes a dozen frames of Python's stack.
_MOST_DEPTH: Final = 40
_WHOLE: Final = re.compile("-?[0-9]{1,18}")

Write = Callable[[bytes], Awaitable[None]]


class Streams(NamedTuple):
    """A command's standard streams. ``read()`` returns ``b""`` at the end of the input."""

    read: Callable[[], Awaitable[bytes]]
    out: Write
    err: Write


class Exit(Exception):
    """Raised by ``exit``."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class LoopControl(Exception):
    """Raised by ``break``, or (``again``) by ``continue``, for the loop around it."""

    def __init__(self, *, again: bool) -> None:
        super().__init__(again)
        self.again = again


#: Runs a program: words, variables, streams, shell depth -> exit code; None for an unknown program.
Execute = Callable[[list[str], Mapping[str, str], Streams, int], Awaitable[int | None]]


async def nothing() -> bytes:
    """An input that is empty."""
    return b""


class NestingTooDeep(Exception):
    """Raised when shells are nested too deeply, for example by a script that runs itself."""


class Shell:
    """A shell with its variables, background commands and last exit code.

    ``depth``: how many shells it is nested in. Raises NestingTooDeep.
    """

    def __init__(self, environment: Mapping[str, str], execute: Execute, depth: int = 0) -> None:
        if depth > _MOST_DEPTH:
            raise NestingTooDeep
        self.variables = dict(environment)
        self._execute = execute
        self._depth = depth
        self._background: list[asyncio.Task[int]] = []
        self._last = 0

    async def run(self, text: str, streams: Streams) -> int:
        """Run a script and return its exit code."""
        try:
            return await self._node(parse(text), streams)
        except ShellSyntaxError as error:
            await streams.err(f"sh: {error}\n".encode())
            return MISUSED
        except Exit as leaving:
            return leaving.code
        except LoopControl:
            return 0
        finally:
            for task in self._background:
                task.cancel()

    async def _node(self, node: Node, streams: Streams) -> int:
        # A loop of instant commands must yield to the other tasks.
        await asyncio.sleep(0)
        match node:
            case Command():
                self._last = await self._command(node, streams)
            case CommandList():
                await self._chain(node, streams)
            case Pipeline():
                await self._pipe(node, streams)
            case WhileLoop():
                while (await self._node(node.condition, streams) == 0) == node.wanted:
                    if not await self._iterate(node.body, streams):
                        break
            case ForLoop():
                for value in [value for word in node.words for value in await self._expanded(word, streams)]:
                    self.variables[node.name] = value
                    if not await self._iterate(node.body, streams):
                        break
            case IfStatement():
                await self._choice(node, streams)
        return self._last

    async def _iterate(self, body: Node, streams: Streams) -> bool:
        """Run one iteration of a loop; False if the loop ends."""
        try:
            await self._node(body, streams)
        except LoopControl as leaving:
            self._last = 0
            return leaving.again
        return True

    async def _chain(self, chain: CommandList, streams: Streams) -> None:
        for joint, part, background in chain.parts:
            if (joint == "&&" and self._last != 0) or (joint == "||" and self._last == 0):
                continue
            if background:
                self._background.append(asyncio.create_task(self._subshell(part, streams)))
                self._last = 0
            else:
                await self._node(part, streams)

    async def _subshell(self, part: Node, streams: Streams) -> int:
        shell = Shell(self.variables, self._execute, self._depth + 1)
        try:
            return await shell._node(part, streams)
        except Exit as leaving:
            return leaving.code
        except LoopControl:
            return 0
        finally:
            for task in shell._background:
                task.cancel()

    async def _pipe(self, pipe: Pipeline, streams: Streams) -> None:
        """Run all parts concurrently and wait for all; the exit code is the last one's."""
        *first, last = pipe.parts
        flows = [ShellPipe() for _ in first]
        sources = (None, *flows)
        tasks = [
            asyncio.create_task(self._piped(part, source, into, streams))
            for part, source, into in zip(first, sources, flows, strict=False)
        ]
        try:
            await self._node(last, streams._replace(read=flows[-1].read))
            flows[-1].close()
            await asyncio.gather(*tasks)
        finally:
            for flow in flows:
                flow.close()  # release blocked writers
            for task in tasks:
                task.cancel()

    async def _piped(self, part: Node, source: ShellPipe | None, into: ShellPipe, streams: Streams) -> int:
        async def out(data: bytes) -> None:
            if not await into.write(data):
                raise Exit(BROKEN_PIPE)

        try:
            read = streams.read if source is None else source.read
            return await self._subshell(part, streams._replace(read=read, out=out))
        finally:
            if source is not None:
                source.close()
            await into.end()

    async def _choice(self, choice: IfStatement, streams: Streams) -> None:
        for condition, body in choice.branches:
            if await self._node(condition, streams) == 0:
                await self._node(body, streams)
                return
        self._last = 0
        if choice.otherwise is not None:
            await self._node(choice.otherwise, streams)

    async def _command(self, command: Command, streams: Streams) -> int:
        words = [value for word in command.words for value in await self._expanded(word, streams)]
        given: dict[str, str] = {}
        while words and _is_assignment(words[0]):
            name, _, value = words.pop(0).partition("=")
            given[name] = value
        if not words:
            self.variables.update(given)
            return 0
        name, arguments = words[0], words[1:]
        if name == "exit":
            code = whole(arguments[0]) if arguments else None
            raise Exit(self._last if code is None else code & 255)
        if name in ("break", "continue"):
            raise LoopControl(again=name == "continue")
        if name == "wait":
            await asyncio.gather(*self._background)
            return 0
        if name == "export" and arguments:
            self.variables.update(dict(word.split("=", 1) for word in arguments if "=" in word))
            return 0
        if name in _BUILT_IN:
            return _BUILT_IN[name]
        code = await self._execute(words, {**self.variables, **given}, streams, self._depth)
        if code is None:
            await streams.err(f"sh: 1: {name}: not found\n".encode())
            return NOT_FOUND
        return code

    async def _expanded(self, word: Word, streams: Streams) -> list[str]:
        """Expand a word; unquoted parts are split at blanks."""
        values = [""]
        empty = True
        for piece in word:
            text = piece.text if piece.kind == "text" else await self._value(piece.kind, piece.text, streams)
            empty = empty and not text and not piece.quoted
            if piece.quoted or piece.kind == "text":
                values[-1] += text
            else:
                first, *rest = text.split() or [""]
                values[-1] += first
                values.extend(rest)
        return [] if empty else values

    async def _value(self, kind: str, text: str, streams: Streams) -> str:
        if kind == "variable":
            if text == "?":
                return str(self._last)
            name, _, default = text.partition(":-")
            return self.variables.get(name) or default
        written = bytearray()

        async def keep(data: bytes) -> None:
            written.extend(data)

        await self._subshell(parse(text), streams._replace(out=keep))
        return written.decode(errors="replace").rstrip("\n")


#: Built-in commands without effect here, and their exit codes.
_BUILT_IN: Final[Mapping[str, int]] = {
    ":": 0, "true": 0, "false": 1, "trap": 0, "set": 0, "cd": 0, "unset": 0, "ulimit": 0, "umask": 0, "local": 0,
}  # fmt: skip


def whole(text: str) -> int | None:
    """Parse an integer of at most 18 digits; None if it is not one.

    >>> whole("-3"), whole("²"), whole("--5"), whole("9" * 5000)
    (-3, None, None, None)
    """
    return int(text) if _WHOLE.fullmatch(text) else None


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.replace("_", "a").isalnum() and not name[0].isdigit()
