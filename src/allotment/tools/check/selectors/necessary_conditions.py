"""The conditions that every selected device must satisfy: a mistake in one of them affects all devices."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.cel.source_spans import TextSpan
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Comprehension, Node, walk
from allotment.tools.check.selectors.expressions import DeviceAccess, Expression, LiteralComparison

#: Operators whose operands are not necessary conditions: the result can be true without one of them.
_ALTERNATIVES = frozenset({ast.OR, ast.NOT, ast.NOT_EQUALS, ast.CONDITIONAL})


def necessary_comparisons(expr: Expression) -> Iterator[LiteralComparison]:
    """The comparisons among the operands of the outermost ``&&``."""
    outermost = {term.node.id for term in expr.conjuncts}
    return (comparison for comparison in expr.comparisons if comparison.node.id in outermost)


def is_necessary(expr: Expression, access: DeviceAccess) -> bool:
    """Whether a device without the attribute can never be selected: the access is not below an alternative."""
    return not access.is_optional and is_necessary_at(expr, access.extent)


def is_necessary_at(expr: Expression, extent: TextSpan) -> bool:
    """Whether the condition at an extent must be true: it is not below an alternative."""
    for term in expr.conjuncts:
        if term.start <= extent[0] and extent[1] <= term.stop:
            return not any(_is_alternative(node) for node in walk(term.node))
    return False


def _is_alternative(node: Node) -> bool:
    return isinstance(node, Comprehension) or (isinstance(node, Call) and node.function in _ALTERNATIVES)
