"""CEL selectors of requests and classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from allotment.model.resource import DeviceSelector
from allotment.model.validation.context import ExpressionProblem, ValidationContext
from allotment.model.validation.errors import Errors, forbidden, internal, invalid, required, too_long
from allotment.model.validation.gotext import size
from allotment.model.validation.lists import check_list
from allotment.model.validation.release import release

SELECTORS_MAX = 32
EXPRESSION_MAX = 10 * 1024


def selectors(
    values: Sequence[DeviceSelector], path: str, context: ValidationContext, *, stored: bool = False
) -> Errors:
    """Validate selectors: at most 32, whose expressions compile and do not exceed the cost limit."""
    return check_list(
        values, SELECTORS_MAX, lambda selector, item_path: _selector(selector, item_path, context, stored=stored), path
    )


def _selector(selector: DeviceSelector, path: str, context: ValidationContext, *, stored: bool) -> Errors:
    if selector.cel is None:
        yield required(f"{path}.cel")
        return
    path, expression = f"{path}.cel.expression", selector.cel.expression
    if stored and release(context.features).keeps_expressions:
        return
    if size(expression) > EXPRESSION_MAX:
        yield too_long(path, EXPRESSION_MAX)  # not compiled
        return
    yield from expression_errors(expression, context.check_expression(expression, stored=stored), path)


def expression_errors(expression: str, problems: Iterable[ExpressionProblem], path: str) -> Errors:
    """The errors for the problems of an expression."""
    for kind, text in problems:
        if kind == "cost":
            yield forbidden(path, "too complex, exceeds cost limit")
        elif kind == "required":
            yield required(path, text)
        elif kind == "internal":
            yield internal(path, text)
        else:
            yield invalid(path, expression, text)
