"""The validation context with the CEL compiler: it reports why an expression cannot be stored.

``allotment.model.validation`` is in a lower layer than the compiler and receives it as an argument.
"""

from __future__ import annotations

from allotment.cel import COST_LIMIT, CompileError, compile_derived_attribute, compile_selector
from allotment.model.features import Features
from allotment.model.validation.context import DerivedExpression, ExpressionProblem, ValidationContext


def validation_context(features: Features) -> ValidationContext:
    """The context in which objects are validated: the release's features and this compiler."""

    def check(expression: str, *, stored: bool) -> tuple[ExpressionProblem, ...]:
        try:
            selector = compile_selector(expression, features, env="stored" if stored else "new")
        except CompileError as error:
            return (ExpressionProblem(error.kind, str(error)),)
        if selector.estimated_cost > COST_LIMIT:
            return (ExpressionProblem("cost"),)
        return ()

    def check_derived(expression: str) -> DerivedExpression:
        try:
            attribute = compile_derived_attribute(expression, features, env="new")
        except CompileError as error:
            return DerivedExpression((ExpressionProblem(error.kind, str(error)),))
        cost = attribute.estimated_cost
        return DerivedExpression((ExpressionProblem("cost"),) if cost > COST_LIMIT else (), cost)

    return ValidationContext(features, check, check_derived)
