"""Builds objects for validation tests and formats their errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from allotment.model.features import GATES, Features
from allotment.model.quantity import Quantity
from allotment.model.validation.context import ExpressionProblem, ValidationContext
from allotment.model.validation.errors import FieldError

T = TypeVar("T")

ALL_ON = Features("1.36", {gate: True for gate, releases in GATES.items() if "1.36" in releases})
NOW = "2026-01-02T03:04:05Z"


def check(expression: str, *, stored: bool) -> tuple[ExpressionProblem, ...]:
    """A fake CEL compiler: the expression decides the problem."""
    if expression == "dear":
        return (ExpressionProblem("cost"),)
    if expression == "broken" or (expression == "new only" and not stored):
        return (ExpressionProblem("invalid", "compilation failed"),)
    return ()


CONTEXT = ValidationContext(ALL_ON, check)


def value(kind: type[T], tree: Any) -> T:
    """An object from the JSON shape of v1."""

    def quantity(_: type, text: Any) -> Quantity:
        return Quantity.parse(str(text))

    return msgspec.convert(tree, kind, dec_hook=quantity)


def texts(errors: Iterable[FieldError]) -> list[str]:
    """Errors as text, without the examples of name syntax."""
    return [str(error).partition(" (e.g. ")[0] for error in errors]
