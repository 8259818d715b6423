"""Builds objects for validation tests and formats their errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from allotment.model.features import GATES, Features
from allotment.model.quantity import Quantity
from allotment.model.validation.context import DerivedExpression, ExpressionProblem, ValidationContext
from allotment.model.validation.errors import FieldError

T = TypeVar("T")


def all_on(kube: str) -> Features:
    """A release with all of its gates on."""
    return Features(kube, {gate: True for gate, releases in GATES.items() if kube in releases})


ALL_ON = all_on("1.36")
NOW = "2026-01-02T03:04:05Z"


def check(expression: str, *, stored: bool) -> tuple[ExpressionProblem, ...]:
    """A fake CEL compiler: the expression decides the problem."""
    if expression == "dear":
        return (ExpressionProblem("cost"),)
    if expression == "broken" or (expression == "new only" and not stored):
        return (ExpressionProblem("invalid", "compilation failed"),)
    return ()


def check_derived(expression: str) -> DerivedExpression:
    """The same for derived attributes: ``cost N`` costs N."""
    problems = check(expression, stored=False)
    cost = int(expression[5:]) if expression.startswith("cost ") else 0
    return DerivedExpression(problems, 2_000_000 if expression == "dear" else cost)


CONTEXT = ValidationContext(ALL_ON, check)
#: 1.37 with all gates, and as it comes.
CONTEXT_1_37 = ValidationContext(all_on("1.37"), check, check_derived)
PLAIN_1_37 = ValidationContext(Features("1.37"), check, check_derived)


def value(kind: type[T], tree: Any) -> T:
    """An object from the JSON shape of v1."""

    def quantity(_: type, text: Any) -> Quantity:
        return Quantity.parse(str(text))

    return msgspec.convert(tree, kind, dec_hook=quantity)


def texts(errors: Iterable[FieldError]) -> list[str]:
    """Errors as text, without the examples of name syntax."""
    return [str(error).partition(" (e.g. ")[0] for error in errors]
