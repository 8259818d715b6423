"""What validation needs to know beyond the object: the gates that are on, and who compiles CEL.

The CEL compiler stands on a higher floor than the model, so it comes in as an argument;
``allotment.cel.validation_context`` provides it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from allotment.model.features import Features


class ExpressionProblem(NamedTuple):
    """Why an expression is refused.

    ``invalid`` and ``required`` are compile errors and ``internal`` failures of the compiler, with the compiler's
    text; ``cost`` says that the estimated cost exceeds the limit.
    """

    kind: Literal["invalid", "required", "internal", "cost"]
    text: str = ""


class ExpressionChecker(Protocol):
    """Compiles a selector's expression, in the environment for new expressions or the laxer one for stored ones."""

    def __call__(self, expression: str, *, stored: bool) -> tuple[ExpressionProblem, ...]:
        """The problems of the expression; none if it may be stored."""
        ...


@dataclass(frozen=True, slots=True)
class ValidationContext:
    """What validators need beside the object."""

    features: Features
    check_expression: ExpressionChecker
