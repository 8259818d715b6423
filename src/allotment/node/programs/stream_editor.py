"""``sed`` with the commands that manifests use: ``s``, ``p``, ``d`` and ``q``, with line numbers and expressions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from allotment.node.programs.container_view import ContainerView, options
from allotment.node.shell_language.process import Process
from allotment.node.shell_language.regular_expressions import Expression, Match, compiled, extended
from allotment.node.shell_language.syntax import NotSimulated

_MOST_INPUT: Final = 16 * 2**20


class _Command(NamedTuple):
    """A command of a script. ``line``: the only line it applies to, -1 for the last, 0 for all."""

    name: str
    line: int = 0
    address: Expression | None = None
    expression: Expression | None = None
    replacement: str = ""
    every: bool = False
    prints: bool = False


async def sed(process: Process, inside: ContainerView) -> int:
    """Run ``sed``."""
    given = options(process.words, "nEri", "e")
    operands = list(given.operands)
    script = given.given.get("e")
    if script is None:
        if not operands:
            return await process.fail("no script specified")
        script = operands.pop(0)
    commands = _commands(script, extended_syntax="E" in given or "r" in given)
    if not operands:
        text = (await process.streams.input.all(_MOST_INPUT)).decode(errors="replace")
        await process.print(_edited(text.splitlines(keepends=True), commands, quiet="n" in given))
        return 0
    for path in operands:
        try:
            text = (await process.files.contents(path, process.directory)).decode(errors="replace")
        except OSError as error:
            return await process.fail(f"can't read {path}: {error.strerror}", 2)
        edited = _edited(text.splitlines(keepends=True), commands, quiet="n" in given)
        if "i" in given:
            await process.files.write(path, edited.encode(errors="replace"), process.directory)
        else:
            await process.print(edited)
    return 0


def _commands(script: str, *, extended_syntax: bool) -> list[_Command]:
    commands: list[_Command] = []
    place = 0

    def pattern(text: str) -> Expression:
        return compiled(text if extended_syntax else extended(text))

    while place < len(script):
        if script[place] in " ;\n":
            place += 1
            continue
        line, address = 0, None
        if found := re.compile(r"\d{1,9}").match(script, place):
            line, place = int(found.group()), found.end()
        elif script[place] == "$":
            line, place = -1, place + 1
        elif script[place] == "/":
            text, place = _delimited(script, place + 1, "/")
            address = pattern(text)
        name = script[place : place + 1]
        place += 1
        if name == "s" and place < len(script):
            delimiter = script[place]
            text, place = _delimited(script, place + 1, delimiter)
            replacement, place = _delimited(script, place, delimiter)
            end = place
            while script[end : end + 1] in tuple("gpiI"):
                end += 1
            flags, place = script[place:end], end
            expression = compiled(text if extended_syntax else extended(text), ignore_case="i" in flags.lower())
            commands.append(_Command(name, line, address, expression, replacement, "g" in flags, "p" in flags))
        elif name in ("p", "d", "q"):
            commands.append(_Command(name, line, address))
        else:
            raise NotSimulated(f"the sed script {script!r}"[:200])
        if script[place : place + 1] not in ("", ";", "\n", " "):
            raise NotSimulated(f"the sed script {script!r}"[:200])
    return commands


def _delimited(script: str, place: int, delimiter: str) -> tuple[str, int]:
    text = ""
    while place < len(script):
        if script[place] == "\\" and place + 1 < len(script):
            text += delimiter if script[place + 1] == delimiter else script[place : place + 2]
            place += 2
        elif script[place] == delimiter:
            return text, place + 1
        else:
            text += script[place]
            place += 1
    raise NotSimulated(f"the sed script {script!r}"[:200])


def _edited(lines: list[str], commands: list[_Command], *, quiet: bool) -> str:
    found: list[str] = []
    for number, line in enumerate(lines, 1):
        text, end = line.removesuffix("\n"), "\n" if line.endswith("\n") else ""
        shown, ends = not quiet, False
        for command in commands:
            if command.line not in (0, number) and not (command.line == -1 and number == len(lines)):
                continue
            if command.address is not None and not command.address.search(text):
                continue
            if command.name == "d":
                shown = False
                break
            if command.name == "q":
                ends = True
                break
            if command.expression is not None:
                changed = command.expression.search(text) is not None
                text = command.expression.sub(_replacing(command.replacement), text, 0 if command.every else 1)
                if changed and command.prints:
                    found.append(text + end)
            elif command.name == "p":
                found.append(text + end)
        if shown:
            found.append(text + end)
        if ends:
            break
    return "".join(found)


def _replacing(text: str) -> Callable[[Match], str]:
    def replace(match: Match) -> str:
        return _REFERENCE.sub(lambda found: _referenced(found.group(), match), text)

    return replace


_REFERENCE: Final = re.compile(r"\\.|&", re.DOTALL)


def _referenced(reference: str, match: Match) -> str:
    if reference == "&":
        return match.group() or ""
    letter = reference[1]
    if letter.isdigit():
        return match.group(int(letter)) or "" if int(letter) <= _MOST_GROUPS else ""
    return {"n": "\n", "t": "\t"}.get(letter, letter)


_MOST_GROUPS: Final = 9
