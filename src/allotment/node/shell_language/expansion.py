"""The expansion of words (POSIX.1-2024, section 2.6): parameters, commands, arithmetic, fields and patterns."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from allotment.node.container_files import ContainerFiles, Directory
from allotment.node.shell_language.arithmetic import ArithmeticFault, evaluate
from allotment.node.shell_language.patterns import expression, is_pattern, quoted, replaced, trimmed, unquoted
from allotment.node.shell_language.process import LONGEST_VALUE, ShellFault
from allotment.node.shell_language.syntax import (
    Arithmetic,
    HereDocument,
    Node,
    Parameter,
    Piece,
    Substitution,
    Text,
    Word,
)

_BLANKS: Final = " \t\n"
_BRACES: Final = re.compile(r"\{([^{}]*(?:,[^{}]*)+|-?\d{1,6}\.\.-?\d{1,6})\}")
_MOST_WORDS: Final = 10_000


class Scope(Protocol):
    """The shell that an expansion reads and changes."""

    variables: dict[str, str]
    arguments: list[str]
    name: str
    directory: str
    options: set[str]
    files: ContainerFiles

    def special(self, name: str) -> str | None:
        """The value of a special parameter; None if it is not one."""
        ...


class Expansion:
    """Expands words for a shell. ``output`` runs commands and returns their output."""

    def __init__(self, scope: Scope, output: Callable[[Node], Awaitable[str]], *, braces: bool) -> None:
        self._scope = scope
        self._output = output
        self._braces = braces

    async def fields(self, words: Sequence[Word]) -> list[str]:
        """Expand words to the arguments of a command."""
        found: list[str] = []
        for word in words:
            for each in self._braced(word) if self._braces else (word,):
                for field in await self._split(each):
                    found += await self._paths(field) if "f" not in self._scope.options else [unquoted(field)]
            if len(found) > _MOST_WORDS:
                raise ShellFault("argument list too long")
        return found

    async def text(self, word: Word) -> str:
        """Expand a word to one text, as for assignments."""
        return unquoted(await self.pattern(word))

    async def pattern(self, word: Word) -> str:
        """Expand a word to one pattern, in which quoted letters are marked."""
        found = ""
        for place, piece in enumerate(word):
            if isinstance(piece, Text):
                tilde = place == 0 and not piece.quoted
                found += quoted(piece.text) if piece.quoted else self._home(piece.text) if tilde else piece.text
            elif isinstance(piece, HereDocument):
                found += await self.pattern(piece.word)
            else:
                values = await self._values(piece)
                value = (" " if values.separate else "").join(values.texts)
                found += quoted(value) if piece.quoted else value
            self._check(found)
        return found

    # --- fields ---------------------------------------------------------------------------------------------------

    async def _split(self, word: Word) -> list[str]:
        """The fields of a word, with quoted letters marked."""
        fields, here, exists = list[str](), "", False
        blanks = self._scope.variables.get("IFS", _BLANKS)
        for place, piece in enumerate(word):
            if isinstance(piece, Text):
                text = self._home(piece.text) if place == 0 and not piece.quoted else piece.text
                here += quoted(text) if piece.quoted else text
                exists = exists or piece.quoted or bool(text)
                continue
            if isinstance(piece, HereDocument):
                continue
            values = await self._values(piece)
            for number, value in enumerate(values.texts):
                if number and values.separate and exists:
                    fields.append(here)
                    here, exists = "", False
                if piece.quoted:
                    here += quoted(value)
                    exists = True
                    continue
                first, *rest = _cut(value, blanks)
                if first is not None:
                    here += first
                    exists = exists or bool(first)
                for part in rest:
                    if exists:
                        fields.append(here)
                    here, exists = part or "", part is not None
            self._check(here)
        return [*fields, here] if exists else fields

    async def _values(self, piece: Parameter | Substitution | Arithmetic) -> _Values:
        if isinstance(piece, Substitution):
            return _Values([await self._output(piece.body)])
        if isinstance(piece, Arithmetic):
            try:
                return _Values([str(evaluate(await self.text(piece.expression), self._scope.variables))])
            except ArithmeticFault as error:
                raise ShellFault(str(error)) from None
        arguments = self._scope.arguments
        if piece.name in ("@", "*") and not piece.length and not piece.operator:
            if piece.name == "*" and piece.quoted:
                joint = self._scope.variables.get("IFS", _BLANKS)[:1]
                return _Values([joint.join(arguments)])
            return _Values(list(arguments), separate=True)
        return _Values([await self._parameter(piece)])

    async def _parameter(self, piece: Parameter) -> str:
        scope, name, operator = self._scope, piece.name, piece.operator
        value = scope.special(name)
        if value is None:
            value = scope.variables.get(name)
        if piece.length:
            return str(len(scope.arguments)) if name in ("@", "*") else str(len(value or ""))
        tested = operator.removeprefix(":")
        missing = value is None or (operator.startswith(":") and not value)
        if tested == "+" and operator:
            return "" if missing else await self.text(piece.word)
        if missing and tested in ("-", "=", "?") and operator:
            default = await self.text(piece.word)
            if tested == "?":
                raise ShellFault(f"{name}: {default or 'parameter not set'}")
            if tested == "=":
                scope.variables[name] = default
            return default
        if value is None:
            if "u" in scope.options and name not in ("@", "*"):
                raise ShellFault(f"{name}: parameter not set")
            value = ""
        if operator in ("#", "##", "%", "%%"):
            return trimmed(value, operator, await self.pattern(piece.word))
        if operator in ("/", "//"):
            return replaced(value, operator, await self.pattern(piece.word), await self.text(piece.replacement))
        if operator == ":":
            return self._part(value, await self.text(piece.word))
        return value

    def _part(self, value: str, text: str) -> str:
        """``${name:offset:length}``."""
        first, _, second = text.partition(":")
        try:
            start = evaluate(first, self._scope.variables)
            start = max(len(value) + start, 0) if start < 0 else start
            if not second:
                return value[start:]
            length = evaluate(second, self._scope.variables)
        except ArithmeticFault as error:
            raise ShellFault(str(error)) from None
        return value[start : start + length] if length >= 0 else value[start:length]

    # --- paths, tildes and braces ---------------------------------------------------------------------------------

    async def _paths(self, field: str) -> list[str]:
        """The paths that match a field; the field itself if it is no pattern or matches none."""
        if not is_pattern(field):
            return [unquoted(field)]
        found = ["/" if field.startswith("/") else ""]
        for part in filter(None, field.split("/")):
            following: list[str] = []
            for above in found:
                entry = await self._scope.files.find(above or ".", self._scope.directory)
                names = sorted(entry.children) if isinstance(entry, Directory) else []
                if is_pattern(part):
                    names = [name for name in names if not name.startswith(".") or part.startswith(".")]
                    names = [name for name in names if expression(part).fullmatch(name)]
                else:
                    names = [unquoted(part)] if unquoted(part) in names else []
                following += (f"{above}{'/' if above.strip('/') else ''}{name}" for name in names)
            found = following[:_MOST_WORDS]
        return found or [unquoted(field)]

    def _home(self, text: str) -> str:
        if text == "~" or text.startswith("~/"):
            return self._scope.variables.get("HOME", "~") + text[1:]
        return text

    def _braced(self, word: Word) -> list[Word]:
        """Brace expansion of bash, of the first braces of a word and then of the rest."""
        for place, piece in enumerate(word):
            if not isinstance(piece, Text) or piece.quoted or (found := _BRACES.search(piece.text)) is None:
                continue
            before, after = piece.text[: found.start()], piece.text[found.end() :]
            words: list[Word] = []
            for middle in _alternatives(found.group(1)):
                text: Piece = Text(before + middle + after)
                words += self._braced((*word[:place], text, *word[place + 1 :]))
                if len(words) > _MOST_WORDS:
                    raise ShellFault("argument list too long")
            return words
        return [word]

    def _check(self, text: str) -> None:
        if len(text) > LONGEST_VALUE:
            raise ShellFault("cannot allocate memory")


class _Values:
    """The values of an expansion. ``separate``: each is a field of its own."""

    def __init__(self, texts: list[str], *, separate: bool = False) -> None:
        self.texts = texts
        self.separate = separate


def _cut(value: str, blanks: str) -> list[str | None]:
    """Split a value at the letters of IFS. The first part continues the current field; None: there is none.

    A last None ends the field without starting another.
    """
    if not blanks or not value:
        return [value]
    soft = "".join(letter for letter in blanks if letter in _BLANKS)
    hard = "".join(letter for letter in blanks if letter not in _BLANKS)
    if not hard:
        parts: list[str | None] = list(re.split(f"[{re.escape(soft)}]+", value))
    else:
        around = f"[{re.escape(soft)}]*" if soft else ""
        some = f"|[{re.escape(soft)}]+" if soft else ""
        parts = list(re.split(f"{around}[{re.escape(hard)}]{around}{some}", value))
    if len(parts) > 1 and parts[-1] == "":
        parts[-1] = None
    return parts


def _alternatives(text: str) -> list[str]:
    first, dots, last = text.partition("..")
    if "," in text or not dots:
        return text.split(",")
    step = 1 if int(last) >= int(first) else -1
    numbers = range(int(first), int(last) + step, step)
    if len(numbers) > _MOST_WORDS:
        raise ShellFault("argument list too long")
    return [str(number) for number in numbers]
