"""The CEL compiler as validation wants it: what keeps an expression from being stored.

``allotment.model.validation`` stands on the floor below and takes the compiler as an argument; this is that argument.
"""

from __future__ import annotations

from allotment.cel import COST_LIMIT, CompileError, compile_selector
from allotment.model.features import Features
from allotment.model.validation.context import Context, ExpressionProblem


def validation_context(features: Features) -> Context:
    """Everything that validation needs beside the object, with this compiler."""

    def check(expression: str, *, stored: bool) -> tuple[ExpressionProblem, ...]:
        try:
            selector = compile_selector(expression, features, env="stored" if stored else "new")
        except CompileError as error:
            return (ExpressionProblem(error.kind, str(error)),)
        if selector.estimated_cost > COST_LIMIT:
            return (ExpressionProblem("cost"),)
        return ()

    return Context(features, check)
