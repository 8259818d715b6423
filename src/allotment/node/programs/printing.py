"""``echo``, ``printf`` and ``seq``."""

from __future__ import annotations

import re
from typing import Final

from allotment.node.programs.container_view import ContainerView, options
from allotment.node.shell_language.arithmetic import whole
from allotment.node.shell_language.process import Process
from allotment.node.shell_language.syntax import NotSimulated

_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|0?([0-7]{1,3})|(.)|$)", re.DOTALL)
_LETTERS: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "\\": "\\"}
_DIRECTIVE: Final = re.compile(r"%(?:%|([-+ 0#]*)(\*|\d+)?(?:\.(\d+))?([a-zA-Z]))")
_WIDEST: Final = 10_000
_MOST_NUMBERS: Final = 100_000


async def echo(process: Process, inside: ContainerView) -> int:
    """Print the arguments. Options as in bash and BusyBox; ``-e`` interprets escapes."""
    words, ending, escapes = process.words[1:], "\n", False
    while words and re.fullmatch("-[neE]+", words[0]):
        option = words.pop(0)
        ending = "" if "n" in option else ending
        escapes = "e" in option or (escapes and "E" not in option)
    text = " ".join(words)
    await process.print((_unescaped(text) if escapes else text) + ending)
    return 0


async def printf(process: Process, inside: ContainerView) -> int:
    """Print a format, which is repeated while arguments are left."""
    words = process.words[1:]
    if words[:1] == ["--"]:
        del words[0]
    if not words:
        return await process.fail("usage: printf format [arguments]", 2)
    form, arguments = words[0], words[1:]
    code = 0
    while True:
        before = len(arguments)
        text, rest, wrong = _formatted(form, arguments)
        await process.print(text)
        for argument in wrong:
            code = await process.fail(f"{argument}: invalid number")
        arguments = rest
        if not arguments or len(arguments) == before:
            return code


def _formatted(form: str, arguments: list[str]) -> tuple[str, list[str], list[str]]:
    """The text of a format, the arguments that are left, and those that are not numbers."""
    rest, wrong, found, place = list(arguments), list[str](), "", 0
    while place < len(form):
        directive = _DIRECTIVE.match(form, place)
        if directive is None:
            escape = _ESCAPE.match(form, place)
            found += _unescaped(escape.group()) if escape else form[place]
            place = escape.end() if escape else place + 1
            continue
        place = directive.end()
        flags, width, precision, kind = directive.groups()
        if kind is None:
            found += "%"
            continue
        if width == "*" or (width and int(width) > _WIDEST) or (precision and int(precision) > _WIDEST):
            raise NotSimulated(f"printf {directive.group()}")
        value = rest.pop(0) if rest else ""
        shape = f"%{flags}{width or ''}{'.' + precision if precision is not None else ''}"
        if kind in "sb":
            found += f"{shape}s" % (_unescaped(value) if kind == "b" else value)
        elif kind == "c":
            found += f"{shape}s" % value[:1]
        elif kind in "diuxXo":
            number = _number(value)
            if number is None:
                wrong.append(value)
            found += f"{shape}{'d' if kind == 'u' else kind}" % (number or 0)
        elif kind in "feEgG":
            try:
                amount = float(value or 0)
            except ValueError:
                amount = 0.0
                wrong.append(value)
            found += f"{shape}{kind}" % amount
        elif kind == "q":
            found += "'" + value.replace("'", "'\\''") + "'"
        else:
            raise NotSimulated(f"printf {directive.group()}")
    return found, rest, wrong


def _number(text: str) -> int | None:
    if not text:
        return 0
    if text[:1] in ("'", '"'):
        return ord(text[1]) if len(text) > 1 else 0
    if re.fullmatch("0[xX][0-9a-fA-F]{1,16}", text):
        return int(text, 16)
    return whole(text)


def _unescaped(text: str) -> str:
    def value(found: re.Match[str]) -> str:
        code, octal, letter = found.groups()
        if code or octal:
            return chr(int(code, 16) if code else int(octal, 8) & 255)
        return _LETTERS.get(letter, found.group()) if letter else "\\"

    return _ESCAPE.sub(value, text)


async def seq(process: Process, inside: ContainerView) -> int:
    """Print a range of integers."""
    # Negative numbers are no options.
    words = [word for word in process.words if whole(word) is None]
    given = options(words, "w", "s")
    numbers = [number for word in process.words[1:] if (number := whole(word)) is not None]
    for operand in given.operands:
        if re.fullmatch(r"-?\d*\.\d+", operand):
            raise NotSimulated(" ".join(process.words))
        return await process.fail(f"invalid argument: '{operand}'")
    if not 0 < len(numbers) < 4:
        return await process.fail("missing operand" if not numbers else "extra operand")
    first, step, last = (1, 1, numbers[0]) if len(numbers) == 1 else (numbers[0], 1, numbers[-1])
    step = numbers[1] if len(numbers) == 3 else step
    if step == 0:
        return await process.fail("invalid Zero increment value: '0'")
    values = range(first, last + (1 if step > 0 else -1), step)
    if len(values) > _MOST_NUMBERS:
        raise NotSimulated(f"seq of {len(values)} numbers")
    width = max(len(str(values[0])), len(str(values[-1]))) if "w" in given and values else 0
    joint = given.given.get("s", "\n")
    await process.print(joint.join(f"{value:0{width}d}" for value in values) + ("\n" if values else ""))
    return 0
