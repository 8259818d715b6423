"""Runs the programs of a simulated container by name."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from allotment.node.container_files import File
from allotment.node.programs.archives import tar
from allotment.node.programs.container_view import ContainerView, Program
from allotment.node.programs.expressions import expr
from allotment.node.programs.file_programs import FILE_PROGRAMS
from allotment.node.programs.network_programs import NETWORK_PROGRAMS
from allotment.node.programs.printing import echo, printf, seq
from allotment.node.programs.stream_editor import sed
from allotment.node.programs.system_information import SYSTEM_INFORMATION, interval
from allotment.node.programs.text_columns import TEXT_COLUMNS
from allotment.node.programs.text_filters import TEXT_FILTERS
from allotment.node.programs.vendor_tools import VENDOR_TOOLS
from allotment.node.shell_language.built_ins import BUILT_INS
from allotment.node.shell_language.interpreter import Shell
from allotment.node.shell_language.parser import parse
from allotment.node.shell_language.process import (
    MISUSED,
    MOST_DEPTH,
    NOT_FOUND,
    Exit,
    NestingTooDeep,
    Process,
    ShellFault,
)
from allotment.node.shell_language.streams import Streams
from allotment.node.shell_language.syntax import NotSimulated, ShellSyntaxError

_SHELLS: Final = frozenset({"sh", "bash", "ash", "dash"})
#: Built-ins of the shell that also exist as programs.
_ALSO_PROGRAMS: Final = frozenset({"test", "[", "true", "false", "pwd", "kill"})
#: The exit code of ``timeout`` for a command that did not end in time.
_LATE: Final = 124
_LONGEST_SHOWN: Final = 200


async def execute(process: Process, inside: ContainerView) -> int:
    """Run a program by name, with or without a path, and return its exit code.

    Raises NotSimulated for an unknown program, if the container has no application, and for unknown options.
    """
    if process.depth > MOST_DEPTH:
        raise NestingTooDeep
    name = process.words[0].rpartition("/")[2]
    program = _PROGRAMS.get(name)
    if program is None and "/" in process.words[0] and (text := await _script(process, process.words[0])) is not None:
        return await _shell_of(process, inside, bash="bash" in text.partition("\n")[0]).run(text, process.streams)
    if program is None:
        if inside.application is not None:
            return await inside.application(process.words, process.streams)
        raise NotSimulated(shown(process.words))
    try:
        return await program(process, inside)
    except OSError as error:
        return await process.fail(f"{error.filename}: {error.strerror}")


def shown(words: list[str]) -> str:
    """A command line in a message."""
    text = " ".join(words)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


async def _script(process: Process, path: str) -> str | None:
    """The text of a shell script among the container's files; None if there is none. Raises NotSimulated."""
    entry = await process.files.find(path, process.directory)
    if not isinstance(entry, File):
        return None
    text = bytes(entry.data).decode(errors="replace")
    first = text.partition("\n")[0]
    if first.startswith("#!") and not any(part.rpartition("/")[2] in _SHELLS for part in first[2:].split()):
        raise NotSimulated(f"{path} ({first})")
    return text


def _shell_of(process: Process, inside: ContainerView, *, bash: bool, words: list[str] | None = None) -> Shell:
    """A shell for a process. ``words``: its ``$0`` and arguments."""

    async def run(inner: Process) -> int:
        return await execute(inner._replace(depth=inner.depth + 1), inside)

    name, *arguments = words or process.words
    return Shell(
        {**process.environment, "PWD": process.directory}, run, BUILT_INS, process.files,
        directory=process.directory, name=name, arguments=arguments, depth=process.depth, bash=bash,
    )  # fmt: skip


async def _sh(process: Process, inside: ContainerView) -> int:
    name, *rest = process.words
    bash, text = name.endswith("bash"), None
    flags: list[str] = []
    while rest and rest[0][:1] in ("-", "+") and len(rest[0]) > 1:
        word = rest.pop(0)
        if word in ("--login", "--noprofile", "--norc", "--posix"):
            continue
        if word == "--":
            break
        if word == "-s":
            break
        letters = word[1:].replace("l", "").replace("i", "")
        if "c" in letters:
            letters = letters.replace("c", "")
            if not rest:
                return await process.fail("-c requires an argument", MISUSED)
            # Options may stand between -c and the script.
            while len(rest) > 1 and rest[0][:1] in ("-", "+") and len(rest[0]) > 1:
                flags.append(rest.pop(0))
            text = rest.pop(0)
        if letters.endswith("o") and rest:
            flags += [f"{word[0]}o", rest.pop(0)]
            letters = letters[:-1]
        if letters:
            flags.append(f"{word[0]}{letters}")
        if text is not None:
            break
    if text is None and rest:
        path = rest[0]
        text = await _script(process, path)
        if text is None:
            return await process.fail(f"0: cannot open {path}: No such file", NOT_FOUND)
        shell = _shell_of(process, inside, bash=bash, words=rest)
    else:
        shell = _shell_of(process, inside, bash=bash, words=rest if text is not None and rest else [name, *rest])
    if flags:
        await BUILT_INS["set"](shell, ["set", *flags], process.streams)
    if text is not None:
        return await shell.run(text, process.streams)
    return await _interactive(shell, process.streams)


async def _interactive(shell: Shell, streams: Streams) -> int:
    """Run commands from a terminal or a pipe, each when it is complete."""
    lines = ""
    try:
        while line := await streams.input.line():
            lines += line.decode(errors="replace")
            if _complete(lines):
                await shell.statement(lines, streams)
                lines = ""
        if lines.strip():
            await shell.statement(lines, streams)
    except Exit as leaving:
        return await shell.run(f"exit {leaving.code}", streams)
    return await shell.run(f"exit {shell.last}", streams)


def _complete(text: str) -> bool:
    if text.endswith("\\\n"):
        return False
    try:
        parse(text)
    except ShellSyntaxError as error:
        return not any(part in str(error) for part in ("end of file", "unterminated", "EOF"))
    except NotSimulated:
        return True
    return True


async def _as_built_in(process: Process, inside: ContainerView) -> int:
    name = process.words[0].rpartition("/")[2]
    shell = _shell_of(process, inside, bash=False, words=["sh"])
    try:
        return await BUILT_INS[name](shell, [name, *process.words[1:]], process.streams)
    except ShellFault as error:
        return await process.fail(str(error), MISUSED)


async def _timeout(process: Process, inside: ContainerView) -> int:
    rest = process.words[1:]
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("-s", "-k") and rest:
            del rest[0]
        elif not option.startswith(("-s", "-k", "--signal=", "--kill-after=", "--foreground", "-t")):
            raise NotSimulated(shown(process.words))
    seconds = interval(rest[0]) if rest else None
    if seconds is None or len(rest) < 2:
        return await process.fail(f"invalid time interval '{rest[0]}'" if rest else "missing operand", 125)
    command = asyncio.create_task(_inner(process._replace(words=rest[1:]), inside))

    def expire() -> None:
        command.cancel()

    timer = inside.clock.later(seconds, expire) if seconds else None
    try:
        await asyncio.wait([command])
    finally:
        if timer is not None:
            timer.cancel()
        command.cancel()
    return _LATE if command.cancelled() else command.result()


async def _inner(process: Process, inside: ContainerView) -> int:
    """Run the command of a program such as ``env`` or ``timeout``."""
    return await execute(process._replace(depth=process.depth + 1), inside)


async def _prefix(process: Process, inside: ContainerView) -> int:
    """``nohup``, ``nice``, ``time``, ``sudo``, ``stdbuf`` and ``setsid``, which only run another command."""
    rest = process.words[1:]
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("-n", "-o", "-u") and rest:
            del rest[0]
    if not rest:
        return await process.fail("missing operand", 125)
    return await _inner(process._replace(words=rest), inside)


async def _env(process: Process, inside: ContainerView) -> int:
    environment = dict(process.environment)
    rest = process.words[1:]
    while rest:
        if rest[0] in ("-i", "-", "--ignore-environment"):
            environment.clear()
        elif rest[0] == "-u" and len(rest) > 1:
            environment.pop(rest[1], None)
            del rest[0]
        elif rest[0].startswith("-"):
            raise NotSimulated(shown(process.words))
        elif "=" in rest[0]:
            name, _, value = rest[0].partition("=")
            environment[name] = value
        else:
            break
        del rest[0]
    if rest:
        return await _inner(process._replace(words=rest, environment=environment), inside)
    await process.print("".join(f"{name}={value}\n" for name, value in environment.items()))
    return 0


async def _which(process: Process, inside: ContainerView) -> int:
    code = 0
    for name in process.words[1:]:
        if name in _PROGRAMS:
            await process.print(f"/usr/bin/{name}\n")
        elif "/" in name and isinstance(await process.files.find(name, process.directory), File):
            await process.print(f"{name}\n")
        else:
            code = 1
    return code


_PROGRAMS: Final[Mapping[str, Program]] = {
    **dict.fromkeys(_SHELLS, _sh),
    **dict.fromkeys(_ALSO_PROGRAMS, _as_built_in),
    **dict.fromkeys(("nohup", "nice", "time", "sudo", "stdbuf", "setsid"), _prefix),
    **TEXT_FILTERS, **TEXT_COLUMNS, **FILE_PROGRAMS, **SYSTEM_INFORMATION, **VENDOR_TOOLS, **NETWORK_PROGRAMS,
    "echo": echo, "printf": printf, "seq": seq, "expr": expr, "sed": sed, "tar": tar, "timeout": _timeout, "env": _env,
    "which": _which,
}  # fmt: skip
