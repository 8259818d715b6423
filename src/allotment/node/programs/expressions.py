"""``expr``: integer arithmetic, comparisons and the matching of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from allotment.node.programs.container_view import ContainerView
from allotment.node.shell_language.arithmetic import ArithmeticFault, whole, wrapped
from allotment.node.shell_language.process import Process
from allotment.node.shell_language.regular_expressions import compiled, extended

_LEVELS: Final = (("|",), ("&",), ("=", "==", "!=", "<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"), (":",))
_DEEPEST: Final = 40
#: Exit codes of ``expr``: the expression is not valid.
_INVALID: Final = 2


async def expr(process: Process, inside: ContainerView) -> int:
    """Print the value of an expression. The exit code is 1 if it is 0 or empty."""
    words = process.words[1:]
    if not words:
        return await process.fail("missing operand", _INVALID)
    evaluation = _Expression(words)
    try:
        value = evaluation.value(0)
        if evaluation.words:
            raise ArithmeticFault(f"syntax error: unexpected argument '{evaluation.words[0]}'")
    except ArithmeticFault as error:
        return await process.fail(str(error), _INVALID)
    await process.print(f"{value}\n")
    return int(value in ("", "0"))


class _Expression:
    def __init__(self, words: list[str]) -> None:
        self.words = list(words)
        self.depth = 0

    def value(self, level: int) -> str:
        if level == len(_LEVELS):
            return self.primary()
        left = self.value(level + 1)
        while self.words and self.words[0] in _LEVELS[level]:
            operator = self.words.pop(0)
            left = _applied(left, operator, self.value(level + 1))
        return left

    def primary(self) -> str:
        if not self.words:
            raise ArithmeticFault("syntax error: missing argument")
        word = self.words.pop(0)
        arguments = _FUNCTIONS.get(word, 0)
        if arguments and len(self.words) >= arguments:
            given = [self.primary() for _ in range(arguments)]
            return _called(word, given)
        if word != "(":
            return word
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ArithmeticFault("nested too deeply")
        value = self.value(0)
        if self.words[:1] != [")"]:
            raise ArithmeticFault("syntax error: expecting ')'")
        del self.words[0]
        return value


def _applied(left: str, operator: str, right: str) -> str:
    if operator == "|":
        return left if left not in ("", "0") else right or "0"
    if operator == "&":
        return left if left not in ("", "0") and right not in ("", "0") else "0"
    if operator == ":":
        found = compiled(f"^(?:{extended(right)})").search(left)
        if r"\(" in right:
            return (found.group(1) or "") if found else ""
        return str(found.end()) if found else "0"
    first, second = whole(left), whole(right)
    if operator in ("=", "==", "!=", "<", "<=", ">", ">="):
        order = (left > right) - (left < right)
        if first is not None and second is not None:
            order = (first > second) - (first < second)
        return str(int(_compared(order, operator)))
    if first is None or second is None:
        raise ArithmeticFault("non-integer argument")
    if operator in ("/", "%"):
        if second == 0:
            raise ArithmeticFault("division by zero")
        quotient = abs(first) // abs(second) * (1 if (first < 0) == (second < 0) else -1)
        return str(quotient if operator == "/" else first - quotient * second)
    return str(wrapped({"+": first + second, "-": first - second, "*": first * second}[operator]))


def _compared(order: int, operator: str) -> bool:
    return {
        "=": order == 0, "==": order == 0, "!=": order != 0, "<": order < 0, "<=": order <= 0, ">": order > 0,
        ">=": order >= 0,
    }[operator]  # fmt: skip


#: Functions with the number of their arguments.
_FUNCTIONS: Final[Mapping[str, int]] = {"length": 1, "substr": 3, "index": 2, "match": 2}


def _called(name: str, given: list[str]) -> str:
    text = given[0]
    if name == "length":
        return str(len(text))
    if name == "match":
        return _applied(text, ":", given[1])
    if name == "index":
        return str(next((place for place, letter in enumerate(text, 1) if letter in given[1]), 0))
    start, length = whole(given[1]), whole(given[2])
    if start is None or length is None or start < 1 or length < 1:
        return ""
    return text[start - 1 : start - 1 + length]
