"""The integer arithmetic of the shell: ``$((…))``, ``((…))``, ``let``, and the comparisons of ``test``."""

from __future__ import annotations

import re
from collections.abc import Callable, MutableMapping
from typing import Final

_TOKEN: Final = re.compile(
    r"\s*(0[xX][0-9a-fA-F]+|[0-9]+|[A-Za-z_]\w*|<<=|>>=|\*\*|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%<>=!~?:()&|^,])",
    re.ASCII,
)
_LEVELS: Final = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip
_ASSIGNMENTS: Final = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})
_DEEPEST: Final = 40
#: Longer expressions are refused, because each value may be large.
_MOST_TOKENS: Final = 2000


class ArithmeticFault(ValueError):
    """Raised for an expression that cannot be evaluated; the text is the shell's message."""


def wrapped(value: int) -> int:
    """A value as a signed integer of 64 bits, as overflows wrap."""
    return (value + 2**63) % 2**64 - 2**63


def evaluate(text: str, variables: MutableMapping[str, str], depth: int = 0) -> int:
    """The value of an expression. Variables are read and assigned. Raises ArithmeticFault.

    >>> evaluate("(1 + 2) * 3 % 5", {}), evaluate("x = y + 1", {"y": "4"}), evaluate("", {})
    (4, 5, 0)
    """
    if depth > _DEEPEST:
        raise ArithmeticFault("expression recursion level exceeded")
    return _Evaluator(text, variables, depth).whole()


class _Evaluator:
    def __init__(self, text: str, variables: MutableMapping[str, str], depth: int) -> None:
        self.variables = variables
        self.depth = depth
        self.tokens: list[str] = []
        self.place = 0
        self.parentheses = 0
        #: Above zero: a branch that is not taken; it is parsed without effects.
        self.skipped = 0
        place = 0
        text = text.rstrip()
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None or len(self.tokens) > _MOST_TOKENS:
                raise ArithmeticFault(f"arithmetic syntax error: {text.strip()!r}"[:200])
            self.tokens.append(found.group(1))
            place = found.end()

    @property
    def here(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self) -> str:
        token = self.here
        self.place += 1
        return token

    def whole(self) -> int:
        if not self.tokens:
            return 0
        value = self.comma()
        if self.here:
            raise ArithmeticFault(f"arithmetic syntax error near `{self.here}'")
        return value

    def comma(self) -> int:
        value = self.assignment()
        while self.here == ",":
            self.take()
            value = self.assignment()
        return value

    def assignment(self) -> int:
        following = self.tokens[self.place + 1] if self.place + 1 < len(self.tokens) else ""
        if _is_variable(self.here) and following in _ASSIGNMENTS:
            name, operator = self.take(), self.take()
            value = self.assignment()
            if operator != "=":
                value = self.apply(operator[:-1], self.read(name), value)
            return self.write(name, value)
        return self.choice()

    def choice(self) -> int:
        condition = self.binary(0)
        if self.here != "?":
            return condition
        self.take()
        first = self.skipping(not condition, self.comma)
        if self.take() != ":":
            raise ArithmeticFault("arithmetic syntax error: expected `:'")
        second = self.skipping(bool(condition), self.choice)
        return first if condition else second

    def skipping(self, skip: bool, part: Callable[[], int]) -> int:
        self.skipped += int(skip)
        try:
            return part()
        finally:
            self.skipped -= int(skip)

    def binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self.power()
        value = self.binary(level + 1)
        while (operator := self.here) in _LEVELS[level]:
            self.take()
            decided = (operator == "&&" and not value) or (operator == "||" and bool(value))
            other = self.skipping(decided, lambda: self.binary(level + 1))
            value = int(operator == "||") if decided else self.apply(operator, value, other)
        return value

    def power(self) -> int:
        base = self.unary()
        if self.here != "**":
            return base
        self.take()
        exponent = self.power()
        if exponent < 0:
            raise ArithmeticFault("exponent less than 0")
        return wrapped(pow(base, exponent, 2**64))

    def unary(self) -> int:
        self.parentheses += 1
        if self.parentheses > _DEEPEST:
            raise ArithmeticFault("expression recursion level exceeded")
        try:
            return self._unary()
        finally:
            self.parentheses -= 1

    def _unary(self) -> int:
        token = self.take()
        if token in ("+", "-", "!", "~"):
            value = self.unary()
            return {"+": value, "-": wrapped(-value), "!": int(not value), "~": ~value}[token]
        if token in ("++", "--"):
            name = self.take()
            if not _is_variable(name):
                raise ArithmeticFault("arithmetic syntax error: operand expected")
            return self.write(name, wrapped(self.read(name) + (1 if token == "++" else -1)))
        if token == "(":
            value = self.comma()
            if self.take() != ")":
                raise ArithmeticFault("arithmetic syntax error: expected `)'")
            return value
        if _is_variable(token):
            value = self.read(token)
            if self.here in ("++", "--"):
                self.write(token, wrapped(value + (1 if self.take() == "++" else -1)))
            return value
        return _number(token)

    def read(self, name: str) -> int:
        text = self.variables.get(name, "").strip()
        return wrapped(evaluate(text, self.variables, self.depth + 1)) if text and not self.skipped else 0

    def write(self, name: str, value: int) -> int:
        if not self.skipped:
            self.variables[name] = str(value)
        return value

    def apply(self, operator: str, left: int, right: int) -> int:
        if operator in ("/", "%"):
            if right == 0:
                if self.skipped:
                    return 0
                raise ArithmeticFault("division by 0")
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return wrapped(quotient if operator == "/" else left - quotient * right)
        return wrapped(_OPERATIONS[operator](left, right))


_OPERATIONS: Final[dict[str, Callable[[int, int], int]]] = {
    "||": lambda a, b: int(bool(a or b)), "&&": lambda a, b: int(bool(a and b)), "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b, "&": lambda a, b: a & b, "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b), ">": lambda a, b: int(a > b), "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b), "<<": lambda a, b: a << (b & 63), ">>": lambda a, b: a >> (b & 63),
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
}  # fmt: skip


def _number(token: str) -> int:
    if not token[:1].isdigit():
        raise ArithmeticFault(f"arithmetic syntax error: operand expected, found {token!r}")
    if len(token) > 40:
        raise ArithmeticFault("value too great")
    try:
        return wrapped(int(token, 16 if token[:2] in ("0x", "0X") else 8 if token[0] == "0" and len(token) > 1 else 10))
    except ValueError:
        raise ArithmeticFault(f"{token}: value too great for base") from None


def _is_variable(token: str) -> bool:
    return token[:1].isalpha() or token[:1] == "_"


def whole(text: str) -> int | None:
    """Parse an integer of at most 18 digits; None if it is not one.

    >>> whole("-3"), whole("²"), whole("--5"), whole("9" * 5000)
    (-3, None, None, None)
    """
    return int(text) if _WHOLE.fullmatch(text) else None


_WHOLE: Final = re.compile("[-+]?[0-9]{1,18}")
