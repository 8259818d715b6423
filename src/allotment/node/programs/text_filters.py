"""Programs that read text and print parts of it: ``cat``, ``grep``, ``head``, ``sort`` and the like."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final

from allotment.node.container_files import Device
from allotment.node.programs.container_view import ContainerView, Program, options
from allotment.node.shell_language.arithmetic import whole
from allotment.node.shell_language.process import Process
from allotment.node.shell_language.regular_expressions import Match, compiled, extended
from allotment.node.shell_language.streams import Input
from allotment.node.shell_language.syntax import NotSimulated

#: Bytes of input that a program holds in memory.
MOST_INPUT: Final = 16 * 2**20


class UnreadableInput(Exception):
    """Raised when an operand cannot be read, after the message was printed."""


async def inputs(process: Process, operands: Sequence[str]) -> AsyncIterator[tuple[str, Input]]:
    """The inputs that operands name, ``-`` or none for the standard input. Prints what cannot be read and raises."""
    if not operands:
        yield "-", process.streams.input
    missing = False
    for operand in operands:
        if operand == "-":
            yield operand, process.streams.input
            continue
        try:
            entry = await process.files.find(operand, process.directory)
            if isinstance(entry, Device) and not operand.endswith("/null"):
                raise NotSimulated(f"{process.words[0]} {operand}")
            data = await process.files.contents(operand, process.directory)
        except OSError as error:
            await process.fail(f"{operand}: {error.strerror}")
            missing = True
            continue
        rest = [data]

        async def read(rest: list[bytes] = rest) -> bytes:
            return rest.pop() if rest else b""

        yield operand, Input(read)
    if missing:
        raise UnreadableInput


async def _cat(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "un")
    number = 0
    async for _, source in inputs(process, given.operands):
        if "n" in given:
            async for line in source.lines():
                number += 1
                await process.streams.out(b"%6d\t%s" % (number, line))
            continue
        while data := await source.read():
            await process.streams.out(data)
    return 0


async def _tee(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "ai")
    for path in given.operands:
        await process.files.write(path, b"", process.directory, append="a" in given)
    while data := await process.streams.input.read():
        for path in given.operands:
            await process.files.write(path, data, process.directory, append=True)
        await process.streams.out(data)
    return 0


async def _grep(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "qivcnEFowxsHhla", "em", ("--quiet", "--line-buffered", "--color=never"))
    operands = list(given.operands)
    text = given.given.get("e")
    if text is None:
        if not operands:
            await process.streams.err(b"Usage: grep [OPTION]... PATTERNS [FILE]...\n")
            return 2
        text = operands.pop(0)
    matches = _matcher(text, given.given, extended_syntax=process.words[0].endswith("egrep"))
    quiet, most = "q" in given or "--quiet" in given, whole(given.given.get("m", "")) or MOST_INPUT
    named = ("H" in given or len(operands) > 1) and "h" not in given
    found = False
    async for name, source in inputs(process, operands):
        count = number = 0
        async for line in source.lines():
            number += 1
            parts = matches(line.decode(errors="replace").removesuffix("\n"))
            if bool(parts) == ("v" in given):
                continue
            found, count = True, count + 1
            if quiet:
                return 0
            if "l" in given or "c" in given:
                continue
            shown = parts if "o" in given else [line.decode(errors="replace").removesuffix("\n")]
            prefix = (f"{name}:" if named else "") + (f"{number}:" if "n" in given else "")
            await process.print("".join(f"{prefix}{part}\n" for part in shown))
            if count >= most:
                break
        if "l" in given and count:
            await process.print(f"{name}\n")
        elif "c" in given:
            await process.print(f"{name}:{count}\n" if named else f"{count}\n")
    return int(not found)


def _matcher(text: str, given: Mapping[str, str], *, extended_syntax: bool) -> Callable[[str], list[str]]:
    """The matching parts of a line; ``[""]`` for an empty match."""
    parts = []
    for pattern in text.split("\n"):
        if "F" in given:
            pattern = re.escape(pattern)
        elif "E" not in given and not extended_syntax:
            pattern = extended(pattern)
        parts.append(pattern)
    body = "|".join(f"(?:{part})" for part in parts)
    if "w" in given:
        body = rf"\b(?:{body})\b"
    if "x" in given:
        body = f"^(?:{body})$"
    expression = compiled(body, ignore_case="i" in given)

    def matches(line: str) -> list[str]:
        found: list[str] = []

        def keep(match: Match) -> str:
            found.append(match.group() or "")
            return ""

        if "o" in given:
            expression.sub(keep, line)
            return [part for part in found if part]
        match = expression.search(line)
        return [match.group() or ""] if match else []

    return matches


async def _head(process: Process, inside: ContainerView) -> int:
    words = [f"-n{word[1:]}" if word[:1] == "-" and word[1:].isdigit() else word for word in process.words]
    given = options(words, "q", "nc")
    text = given.given.get("c", given.given.get("n", "10"))
    count = whole(text)
    if count is None or count < 0:
        return await process.fail(f"invalid number of {'bytes' if 'c' in given else 'lines'}: '{text}'")
    async for _, source in inputs(process, given.operands):
        left = count
        while left > 0 and (data := await (source.read() if "c" in given else source.line())):
            data = data[:left] if "c" in given else data
            left -= len(data) if "c" in given else 1
            await process.streams.out(data)
    return 0


async def _tail(process: Process, inside: ContainerView) -> int:
    words = [f"-n{word[1:]}" if word[:1] == "-" and word[1:].isdigit() else word for word in process.words]
    given = options(words, "fqF", "nc")
    text = given.given.get("c", given.given.get("n", "10"))
    count = whole(text)
    if count is None:
        return await process.fail(f"invalid number of {'bytes' if 'c' in given else 'lines'}: '{text}'")
    async for name, source in inputs(process, given.operands):
        if ("f" in given or "F" in given) and name == "/dev/null":
            await inside.clock.sleep(_FOREVER)
        if "f" in given or "F" in given:
            raise NotSimulated("tail -f")
        if "c" in given:
            data = await source.all(MOST_INPUT)
            await process.streams.out(
                data[count - 1 :] if text[0] == "+" else data[len(data) - min(count, len(data)) :]
            )
        elif text[0] == "+":
            number = 0
            async for line in source.lines():
                number += 1
                if number >= count:
                    await process.streams.out(line)
        else:
            kept: deque[bytes] = deque(maxlen=min(abs(count), MOST_INPUT))
            async for line in source.lines():
                kept.append(line)
            await process.streams.out(b"".join(kept))
    return 0


_FOREVER: Final = 1e9


async def _wc(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "lwcm")
    async for name, source in inputs(process, given.operands):
        lines = words = size = 0
        async for line in source.lines():
            lines += line.endswith(b"\n")
            words += len(line.split())
            size += len(line)
        counts = {"l": lines, "w": words, "c": size, "m": size}
        shown = [str(counts[letter]) for letter in "lwcm" if letter in given] or [str(lines), str(words), str(size)]
        await process.print(" ".join([*shown, *([] if name == "-" else [name])]) + "\n")
    return 0


async def whole_lines(process: Process, operands: Sequence[str]) -> list[str]:
    """All lines of the inputs, without their ends."""
    data = b""
    async for _, source in inputs(process, operands):
        data += await source.all(MOST_INPUT)
    return data.decode(errors="replace").splitlines()


async def _sort(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "nruVf")
    if "V" in given:
        raise NotSimulated("sort -V")
    lines = await whole_lines(process, given.operands)

    def key(line: str) -> tuple[float, str]:
        found = re.match(r"\s*(-?\d{1,300}(?:\.\d{1,300})?)", line, re.ASCII) if "n" in given else None
        return float(found.group(1)) if found else 0.0, line.lower() if "f" in given else line

    lines.sort(key=key, reverse="r" in given)
    if "u" in given:
        lines = list(dict.fromkeys(lines))
    await process.print("".join(f"{line}\n" for line in lines))
    return 0


async def _uniq(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "cdu")
    groups: list[tuple[str, int]] = []
    for line in await whole_lines(process, given.operands[:1]):
        if groups and groups[-1][0] == line:
            groups[-1] = (line, groups[-1][1] + 1)
        else:
            groups.append((line, 1))
    for line, count in groups:
        if ("d" in given and count < 2) or ("u" in given and count > 1):
            continue
        await process.print(f"{count:7} {line}\n" if "c" in given else f"{line}\n")
    return 0


def reading(program: Program) -> Program:
    """A program that exits with 1 (``grep``: 2) if an operand cannot be read."""

    async def run(process: Process, inside: ContainerView) -> int:
        try:
            return await program(process, inside)
        except UnreadableInput:
            return 2 if program is _grep else 1

    return run


TEXT_FILTERS: Final[Mapping[str, Program]] = {
    name: reading(program)
    for name, program in {
        "cat": _cat, "tee": _tee, "grep": _grep, "egrep": _grep, "head": _head, "tail": _tail, "wc": _wc,
        "sort": _sort, "uniq": _uniq,
    }.items()
}  # fmt: skip
