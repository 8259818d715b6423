"""A command of a simulated container as a process: its words, variables, streams and directory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from allotment.node.container_files import ContainerFiles
from allotment.node.shell_language.streams import Streams

#: Exit codes of ``sh``: an unknown command, a command that cannot be executed, and a syntax error.
NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
MISUSED: Final = 2
#: Exit code of a command that writes to a closed pipe (SIGPIPE).
BROKEN_PIPE: Final = 141
#: Maximum nesting of shells. Each takes a dozen frames of Python's stack.
MOST_DEPTH: Final = 40
#: Bytes that one word, variable or substitution may have.
LONGEST_VALUE: Final = 2**20


class Process(NamedTuple):
    """A command that runs. ``depth``: the number of shells that it is nested in."""

    words: list[str]
    environment: Mapping[str, str]
    streams: Streams
    files: ContainerFiles
    directory: str = "/"
    depth: int = 0

    async def print(self, text: str) -> None:
        """Write text to the standard output."""
        await self.streams.out(text.encode(errors="replace"))

    async def fail(self, message: str, code: int = 1) -> int:
        """Write an error message, with the program's name, to the standard error; returns the exit code."""
        name = self.words[0].rpartition("/")[2]
        await self.streams.err(f"{name}: {message}\n".encode(errors="replace"))
        return code


#: Runs a program and returns its exit code. Raises NotSimulated for a program or option that it does not know.
Execute = Callable[[Process], Awaitable[int]]


class Exit(Exception):
    """Raised by ``exit``."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class LoopControl(Exception):
    """Raised by ``break``, or (``again``) by ``continue``, for the loop ``levels`` further out."""

    def __init__(self, *, again: bool, levels: int = 1) -> None:
        super().__init__(again, levels)
        self.again = again
        self.levels = levels


class Return(Exception):
    """Raised by ``return``, for the function around it."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class ShellFault(Exception):
    """Raised for an error that ends a shell, such as an unset variable with ``set -u``. The text is its message."""


class NestingTooDeep(ShellFault):
    """Raised when shells are nested too deeply, for example by a script that runs itself."""

    def __init__(self) -> None:
        super().__init__("nested too deeply")
