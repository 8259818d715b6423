"""The conditions of ``test``, ``[`` and ``[[``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from allotment.node.container_files import ContainerFiles, Device, Directory, Entry, File
from allotment.node.shell_language.arithmetic import ArithmeticFault, evaluate, whole
from allotment.node.shell_language.expansion import Expansion
from allotment.node.shell_language.patterns import expression
from allotment.node.shell_language.regular_expressions import compiled
from allotment.node.shell_language.syntax import Conditional, NotSimulated, Word, plain

_FILES: Final = frozenset({"-e", "-f", "-d", "-r", "-w", "-x", "-s", "-c", "-b", "-h", "-L", "-p", "-S", "-a"})
_UNARY: Final = _FILES | {"-n", "-z", "-t", "-v"}
_NUMBERS: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_BINARY: Final = _NUMBERS | {"=", "==", "!=", "<", ">"}
_DEEPEST: Final = 40


class BadCondition(ValueError):
    """Raised for a condition that cannot be evaluated; the text is the message of ``test``."""


async def test(words: Sequence[str], files: ContainerFiles, directory: str) -> bool:
    """Evaluate the arguments of ``test``. Raises BadCondition, and NotSimulated for unknown operators."""
    evaluation = _Test(list(words), files, directory)
    if not words:
        return False
    value = await evaluation.disjunction()
    if evaluation.words:
        raise BadCondition(f"{evaluation.words[0]}: unexpected operator")
    return value


class _Test:
    """Evaluates ``test`` by precedence: ``-o``, ``-a``, ``!``, parentheses and primaries."""

    def __init__(self, words: list[str], files: ContainerFiles, directory: str) -> None:
        self.words = words
        self.files = files
        self.directory = directory
        self.depth = 0

    async def disjunction(self) -> bool:
        value = await self.conjunction()
        while self.words[:1] == ["-o"]:
            del self.words[0]
            value = await self.conjunction() or value
        return value

    async def conjunction(self) -> bool:
        value = await self.negation()
        while self.words[:1] == ["-a"]:
            del self.words[0]
            value = await self.negation() and value
        return value

    async def negation(self) -> bool:
        negated = False
        while len(self.words) > 1 and self.words[0] == "!" and not (len(self.words) > 2 and self.words[1] in _BINARY):
            negated = not negated
            del self.words[0]
        return await self.primary() != negated

    async def primary(self) -> bool:
        words = self.words
        if not words:
            raise BadCondition("argument expected")
        if len(words) >= 3 and words[1] in _BINARY:
            left, operator, right = words[:3]
            del words[:3]
            return compared(left, operator, right)
        if words[0] == "(" and len(words) > 1:
            self.depth += 1
            if self.depth > _DEEPEST:
                raise BadCondition("too many arguments")
            del words[0]
            value = await self.disjunction()
            if words[:1] != [")"]:
                raise BadCondition("closing paren expected")
            del words[0]
            return value
        if len(words) >= 2 and words[0] in _UNARY:
            operator, operand = words[:2]
            del words[:2]
            return await unary(operator, operand, self.files, self.directory)
        if len(words) >= 2 and words[0].startswith("-") and words[1] not in ("-a", "-o", ")"):
            raise NotSimulated(f"test {words[0]}")
        if len(words) >= 3 and words[1].startswith("-") and words[1] not in ("-a", "-o"):
            raise NotSimulated(f"test {words[1]}")
        return bool(words.pop(0))


def compared(left: str, operator: str, right: str) -> bool:
    """Compare texts or integers. Raises BadCondition."""
    if operator not in _NUMBERS:
        return {"=": left == right, "==": left == right, "!=": left != right, "<": left < right, ">": left > right}[
            operator
        ]
    for text in (left, right):
        if whole(text.strip()) is None:
            raise BadCondition(f"Illegal number: {text}")
    return numbers(int(left), operator, int(right))


def numbers(left: int, operator: str, right: int) -> bool:
    """Compare integers by an operator of ``test``."""
    return {
        "-eq": left == right, "-ne": left != right, "-lt": left < right, "-le": left <= right, "-gt": left > right,
        "-ge": left >= right,
    }[operator]  # fmt: skip


async def unary(operator: str, operand: str, files: ContainerFiles, directory: str) -> bool:
    """Evaluate a condition on one text or path."""
    if operator in ("-n", "-z"):
        return bool(operand) == (operator == "-n")
    if operator in ("-t", "-v"):
        raise NotSimulated(f"test {operator}")
    entry = await files.find(operand, directory) if operand else None
    return entry is not None and _is(entry, operator)


def _is(entry: Entry, operator: str) -> bool:
    if operator == "-f":
        return isinstance(entry, File)
    if operator == "-d":
        return isinstance(entry, Directory)
    if operator == "-s":
        return isinstance(entry, Directory) or (isinstance(entry, File) and bool(entry.data))
    if operator == "-c":
        return isinstance(entry, Device)
    if operator == "-x":
        return isinstance(entry, Directory) or bool(entry.mode & 0o111)
    return operator in ("-e", "-a", "-r", "-w")


class ConditionalCommand:
    """Evaluates ``[[ … ]]``, whose operands are expanded only when they are needed."""

    def __init__(
        self, command: Conditional, expansion: Expansion, variables: dict[str, str], files: ContainerFiles,
        directory: str,
    ) -> None:  # fmt: skip
        self._parts = list(command.parts)
        self._expansion = expansion
        self._variables = variables
        self._files = files
        self._directory = directory
        self._skipped = 0
        self._depth = 0

    async def value(self) -> bool:
        """The value of the whole condition. Raises BadCondition and NotSimulated."""
        value = await self._or()
        if self._parts:
            raise BadCondition("syntax error in conditional expression")
        return value

    def _take(self, *texts: str) -> bool:
        part = self._parts[0] if self._parts else None
        if part is not None and (part if isinstance(part, str) else plain(part)) in texts:
            del self._parts[0]
            return True
        return False

    async def _or(self) -> bool:
        value = await self._and()
        while self._take("||"):
            self._skipped += int(value)
            other = await self._and()
            self._skipped -= int(value)
            value = value or other
        return value

    async def _and(self) -> bool:
        value = await self._not()
        while self._take("&&"):
            self._skipped += int(not value)
            other = await self._not()
            self._skipped -= int(not value)
            value = value and other
        return value

    async def _not(self) -> bool:
        negated = False
        while self._take("!"):
            negated = not negated
        return await self._primary() != negated

    async def _primary(self) -> bool:
        if self._take("("):
            self._depth += 1
            if self._depth > _DEEPEST:
                raise BadCondition("nested too deeply")
            value = await self._or()
            if not self._take(")"):
                raise BadCondition("expected `)'")
            return value
        first = self._operand()
        operator = self._operator()
        if operator and len(self._parts) > 1 and not isinstance(self._parts[1], str):
            del self._parts[0]
            second = self._operand()
            return False if self._skipped else await self._binary(first, operator, second)
        name = plain(first)
        if name.startswith("-") and len(name) == 2 and self._parts and not isinstance(self._parts[0], str):
            second = self._operand()
            return False if self._skipped else await self._unary(name, await self._expansion.text(second))
        return bool(await self._expansion.text(first))

    def _operand(self) -> Word:
        part = self._parts.pop(0) if self._parts else ""
        if isinstance(part, str):
            raise BadCondition("syntax error in conditional expression")
        return part

    def _operator(self) -> str:
        part = self._parts[0] if self._parts else ""
        text = part if isinstance(part, str) else plain(part)
        return text if text in _BINARY or text == "=~" else ""

    async def _unary(self, operator: str, operand: str) -> bool:
        if operator == "-v":
            return operand in self._variables
        if operator not in _UNARY:
            raise NotSimulated(f"[[ {operator} ]]")
        return await unary(operator, operand, self._files, self._directory)

    async def _binary(self, left: Word, operator: str, right: Word) -> bool:
        text = await self._expansion.text(left)
        if operator in ("=", "==", "!="):
            matched = expression(await self._expansion.pattern(right)).fullmatch(text) is not None
            return matched == (operator != "!=")
        other = await self._expansion.text(right)
        if operator == "=~":
            return compiled(other).search(text) is not None
        if operator in _NUMBERS:
            try:
                values = evaluate(text, self._variables), evaluate(other, self._variables)
            except ArithmeticFault as error:
                raise BadCondition(str(error)) from None
            return numbers(values[0], operator, values[1])
        return compared(text, operator, other)
