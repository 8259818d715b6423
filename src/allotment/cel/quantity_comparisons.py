"""Sentences about comparisons of quantities that CEL does not have: with a number or a string, and by an operator."""

from __future__ import annotations

from typing import Final

from allotment.cel.device_references import selection_chain
from allotment.cel.errors import CompileError
from allotment.cel.ordering_operators import ORDERINGS
from allotment.cel.source_spans import SourceSpans, parse_spans
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Const, Ident, Node, walk

#: Methods that compare the receiver with the argument.
METHODS: Final = frozenset({"compareTo", "isGreaterThan", "isLessThan"})
EQUALITIES: Final = {ast.EQUALS: "==", ast.NOT_EQUALS: "!="}
RELATIONS: Final = {**ORDERINGS, **EQUALITIES}
#: Kinds of literals that are no quantities.
LITERALS: Final = ("string", "int", "uint", "double")


def literal_sentence(name: str, literal: str, kind: str) -> str:
    """The sentence about the comparison of a capacity with a literal, as written; ``name`` may be empty.

    >>> literal_sentence("memory", "40", "int")
    'memory is a quantity, but 40 is a number: CEL cannot compare them'
    """
    type_name = "a string" if kind == "string" else "a number"
    return f"{name or 'this'} is a quantity, but {literal} is {type_name}: CEL cannot compare them"


def ordering_sentence(operator: str) -> str:
    """The sentence about the comparison of two quantities by an operator."""
    return f"quantities cannot be compared with {operator}"


def comparison_mistake(expression: str) -> str:
    """The sentence about the first such comparison of a device's capacity in an expression; empty without one.

    >>> comparison_mistake('device.capacity["d"].memory.isGreaterThan("40GB")')
    'memory is a quantity, but "40GB" is a string: CEL cannot compare them'
    >>> comparison_mistake('device.capacity["d"].memory >= quantity("40Gi")')
    'quantities cannot be compared with >='
    """
    try:
        spans = parse_spans(expression)
    except CompileError:
        return ""
    return next(filter(None, (_mistake(spans, node) for node in walk(spans.parsed.expr))), "")


def _mistake(spans: SourceSpans, node: Node) -> str:
    if not isinstance(node, Call):
        return ""
    if node.function in METHODS and node.target is not None and len(node.args) == 1:
        sides = [node.target, node.args[0]]
    elif node.function in RELATIONS:
        sides = node.args
    else:
        return ""
    names = [_capacity(side) for side in sides]
    literal = next((side for side in sides if isinstance(side, Const) and side.kind in LITERALS), None)
    if literal is not None and any(names):
        return literal_sentence(names[0] or names[1], spans.text(literal), literal.kind)
    is_quantity = all(name or _is_quantity_call(side) for name, side in zip(names, sides, strict=True))
    return ordering_sentence(ORDERINGS[node.function]) if is_quantity and node.function in ORDERINGS else ""


def _capacity(node: Node) -> str:
    """The name of the capacity that a node reads; empty if it is something else."""
    base, keys, _ = selection_chain(node)
    is_device = isinstance(base, Ident) and base.name in ("device", ".device")
    return keys[2] if is_device and len(keys) == 3 and keys[0] == "capacity" else ""


def _is_quantity_call(node: Node) -> bool:
    return isinstance(node, Call) and node.function == "quantity" and node.target is None
