"""The text of selector conditions: values and comparisons in CEL syntax, and in sentences."""

from __future__ import annotations

import re

from allotment.cel.ordering_operators import method_ordering
from allotment.model.quantity import Quantity
from allotment.model.semver import Semver

#: Operators in front of a value in a sentence.
OPERATOR_WORDS = {
    "==": "", "in": "one of ", "!=": "other than ",
    "<": "less than ", "<=": "at most ", ">": "more than ", ">=": "at least ",
}  # fmt: skip
#: The unit of an amount of memory.
_UNIT = re.compile("[KMGTP]i?$")


def literal(value: object) -> str:
    """A value as a CEL literal.

    >>> literal("a100"), literal(True), literal(Quantity.parse("24Gi")), literal(Semver.parse("1.2.3"))
    ('"a100"', 'true', 'quantity("24Gi")', 'semver("1.2.3")')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Quantity):
        return f'quantity("{value}")'
    if isinstance(value, Semver):
        return f'semver("{value}")'
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    return str(value)


def value_text(value: object) -> str:
    """A value as text in a sentence: strings are quoted, amounts are not."""
    if isinstance(value, tuple):
        return ", ".join(value_text(item) for item in value)
    return f'"{value}"' if isinstance(value, str) else literal(value) if isinstance(value, bool) else str(value)


def comparable_text(amount: object, requested: object) -> str:
    """An amount, and the same in the unit of the requested one if that has another unit, rounded down.

    >>> comparable_text(Quantity.parse("81559Mi"), Quantity.parse("80Gi"))
    '81559Mi (79.6Gi)'
    >>> comparable_text(Quantity.parse("40Gi"), Quantity.parse("80Gi"))
    '40Gi'
    """
    unit = _UNIT.search(str(requested))
    if not isinstance(amount, Quantity) or unit is None or str(amount).endswith(unit[0]):
        return str(amount)
    tenths = amount.nano * 10 // Quantity.parse(f"1{unit[0]}").nano
    return f"{amount} ({tenths // 10}.{tenths % 10}{unit[0]})" if tenths else str(amount)


def path_text(path: tuple[str, ...]) -> str:
    """A path in CEL syntax.

    >>> path_text(("capacity", "gpu.nvidia.com", "memory"))
    'device.capacity["gpu.nvidia.com"].memory'
    """
    return f"device.{path[0]}" if len(path) == 1 else f'device.{path[0]}["{path[1]}"].{path[2]}'


def comparison_text(path: tuple[str, ...], operator: str, value: object) -> str:
    """A comparison in CEL syntax; amounts and versions have no ordering operators and use ``compareTo``.

    >>> comparison_text(("capacity", "d", "memory"), ">=", Quantity.parse("23034Mi"))
    'device.capacity["d"].memory.compareTo(quantity("23034Mi")) >= 0'
    """
    if isinstance(value, Quantity | Semver) and operator not in ("==", "!="):
        return method_ordering(path_text(path), operator, literal(value))
    return f"{path_text(path)} {operator} {literal(value)}"


def one_line(text: str) -> str:
    """A condition on one line."""
    return " ".join(text.split())


def request_text(name: str, operator: str, value: object) -> str:
    """The instruction to request a value: ``request memory of at least 40Gi``."""
    return f"request {name} {relation(operator)}{value_text(value)}"


def relation(operator: str) -> str:
    """The text between a name and the compared value: ``memory of at least 40Gi``."""
    return f"of {OPERATOR_WORDS[operator]}" if operator in ("<", "<=", ">", ">=") else OPERATOR_WORDS[operator]
