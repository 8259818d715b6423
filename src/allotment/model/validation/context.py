"""The context of validation: feature gates and the CEL compiler.

The CEL compiler is in a higher layer than the model, so it is passed as an argument;
``allotment.cel.validation_context`` provides it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from allotment.model.features import Features


class ExpressionProblem(NamedTuple):
    """A problem of an expression.

    ``invalid`` and ``required`` are compile errors and ``internal`` is a failure of the compiler, with the compiler's
    message; ``cost``: the estimated cost exceeds the limit.
    """

    kind: Literal["invalid", "required", "internal", "cost"]
    text: str = ""


class ExpressionChecker(Protocol):
    """Compiles a selector's expression, in the environment for new or the less strict one for stored expressions."""

    def __call__(self, expression: str, *, stored: bool) -> tuple[ExpressionProblem, ...]:
        """The problems of the expression; empty if it can be stored."""
        ...


class DerivedExpression(NamedTuple):
    """The problems of a derived attribute's expression, and its estimated cost; 0 if it does not compile."""

    problems: tuple[ExpressionProblem, ...] = ()
    cost: int = 0


def _no_problems(_: str) -> DerivedExpression:
    return DerivedExpression()


@dataclass(frozen=True, slots=True)
class ValidationContext:
    """The arguments of validators other than the object.

    ``check_derived_attribute`` compiles a new expression of a derived attribute (1.37).
    """

    features: Features
    check_expression: ExpressionChecker
    check_derived_attribute: Callable[[str], DerivedExpression] = _no_problems
