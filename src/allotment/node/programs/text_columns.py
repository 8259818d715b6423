"""Programs that change the letters of text: ``cut``, ``tr``, ``base64`` and checksums."""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode, encodebytes
from collections.abc import Mapping
from typing import Final

from allotment.node.programs.container_view import ContainerView, Program, options
from allotment.node.programs.text_filters import MOST_INPUT, inputs, reading, whole_lines
from allotment.node.shell_language.arithmetic import whole
from allotment.node.shell_language.process import Process
from allotment.node.shell_language.syntax import NotSimulated


async def _cut(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "s", "dfcb")
    kind = next((letter for letter in "fcb" if letter in given), "")
    if not kind:
        return await process.fail("you must specify a list of bytes, characters, or fields")
    delimiter = given.given.get("d", "\t")
    wanted = _ranges(given.given[kind])
    for line in await whole_lines(process, given.operands):
        parts = line.split(delimiter) if kind == "f" else list(line)
        if kind == "f" and len(parts) == 1:
            await process.print("" if "s" in given else f"{line}\n")
            continue
        kept = [part for number, part in enumerate(parts, 1) if any(a <= number <= b for a, b in wanted)]
        await process.print((delimiter if kind == "f" else "").join(kept) + "\n")
    return 0


def _ranges(text: str) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        start = whole(first) if first else 1
        end = (whole(last) if last else MOST_INPUT) if dash else start
        if start is None or end is None:
            raise NotSimulated(f"the list {text!r}")
        ranges.append((start, end))
    return ranges


async def _tr(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "dsc")
    sets = [_letters(operand) for operand in given.operands]
    if not sets or "c" in given or ("d" not in given and "s" not in given and len(sets) < 2):
        raise NotSimulated(" ".join(process.words))
    first = sets[0]
    second = sets[1] if len(sets) > 1 else first
    table = {} if "d" in given or len(sets) < 2 else {
        ord(letter): second[min(place, len(second) - 1)] for place, letter in enumerate(first)
    }  # fmt: skip
    last = ""
    async for line in process.streams.input.lines():
        text = line.decode(errors="replace")
        text = "".join(letter for letter in text if letter not in first) if "d" in given else text.translate(table)
        if "s" in given:
            kept = ""
            for letter in text:
                if letter != last or letter not in second:
                    kept += letter
                last = letter
            text = kept
        await process.print(text)
    return 0


def _letters(text: str) -> str:
    """The letters of a set of ``tr``."""
    for name, letters in _CLASSES.items():
        text = text.replace(f"[:{name}:]", letters)
    text = re.sub(r"\\([ntr\\])", lambda found: {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}[found.group(1)], text)
    return re.sub(
        "([a-zA-Z0-9])-([a-zA-Z0-9])",
        lambda found: "".join(chr(code) for code in range(ord(found.group(1)), ord(found.group(2)) + 1)), text,
    )  # fmt: skip


_LOWER: Final = "abcdefghijklmnopqrstuvwxyz"
_CLASSES: Final = {
    "lower": _LOWER, "upper": _LOWER.upper(), "alpha": _LOWER.upper() + _LOWER, "digit": "0123456789",
    "alnum": "0123456789" + _LOWER.upper() + _LOWER, "space": " \t\n\r\v\f", "blank": " \t",
}  # fmt: skip


async def _base64(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "di", "w", ("--decode",))
    data = b""
    async for _, source in inputs(process, given.operands):
        data += await source.all(MOST_INPUT)
    if "d" in given or "--decode" in given:
        try:
            await process.streams.out(b64decode(b"".join(data.split()), validate=True))
        except ValueError:
            return await process.fail("invalid input")
        return 0
    encoded = encodebytes(data)
    await process.streams.out(encoded.replace(b"\n", b"") if given.given.get("w") == "0" else encoded)
    return 0


async def _checksum(process: Process, inside: ContainerView) -> int:
    algorithm = process.words[0].rpartition("/")[2].removesuffix("sum")
    given = options(process.words)
    async for name, source in inputs(process, given.operands):
        digest = hashlib.new(algorithm, await source.all(MOST_INPUT), usedforsecurity=False)
        await process.print(f"{digest.hexdigest()}  {name}\n")
    return 0


TEXT_COLUMNS: Final[Mapping[str, Program]] = {
    name: reading(program)
    for name, program in {
        "cut": _cut, "tr": _tr, "base64": _base64, "md5sum": _checksum, "sha1sum": _checksum, "sha256sum": _checksum,
    }.items()
}  # fmt: skip
