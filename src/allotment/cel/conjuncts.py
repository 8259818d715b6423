"""The conjuncts of a selector: the operands of its outermost ``&&``.

They show which part of a selector rejected a device. A conjunct of the form *value, operator, literal* is recognized in
every spelling, so that a report can compare the values: requested ``memory >= 40Gi``, found ``24Gi``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from allotment.cel.device import DeviceInput
from allotment.cel.device_references import DevicePath, selection_chain
from allotment.cel.evaluation.values import Value
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Const, Ident, ListExpr, Node
from allotment.model.quantity import Quantity, QuantityError
from allotment.model.semver import Semver, SemverError

Operator: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">=", "in"]


@dataclass(frozen=True, slots=True)
class ValueComparison:
    """``path operator literal``: the requirement of a conjunct on one value of the device.

    ``path`` is a :data:`~allotment.cel.device_references.DevicePath` of a single value, e.g. ("capacity", domain, id).
    ``literal`` is a bool, int, float, str, Quantity or Semver, or a tuple of them for ``in``.
    """

    path: DevicePath
    operator: Operator
    literal: Value

    def actual(self, device: DeviceInput) -> Value:
        """The device's value at the path, or None."""
        bound = device.variable(True)
        if self.path[0] == "driver":
            return bound.driver
        if self.path[0] == "allowMultipleAllocations":
            return bound.allow_multiple_allocations
        kind, domain, name = self.path
        values: dict[str, Value] = (bound.attributes if kind == "attributes" else bound.capacity).get(domain, {})
        return values.get(name)


@dataclass(frozen=True, slots=True)
class Conjunct:
    """One operand of the outermost ``&&``: its text, its span in the expression (code points), and its comparison if it
    has the form *value, operator, literal*."""

    text: str
    start: int
    stop: int
    comparison: ValueComparison | None
    _matches: Callable[[DeviceInput], bool]

    def matches(self, device: DeviceInput) -> bool:
        """Whether this operand alone is true for a device. Raises EvaluationError as the selector does."""
        return self._matches(device)


_OPERATORS: Final[dict[str, Operator]] = {
    ast.EQUALS: "==", ast.NOT_EQUALS: "!=", ast.LESS: "<", ast.LESS_EQUALS: "<=", ast.GREATER: ">",
    ast.GREATER_EQUALS: ">=",
}  # fmt: skip
_MIRRORED: Final[dict[Operator, Operator]] = {
    "==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<=",
}  # fmt: skip
_METHODS: Final[dict[str, Operator]] = {"isGreaterThan": ">", "isLessThan": "<"}
_NEGATED: Final[dict[Operator, Operator]] = {
    "==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<",
}  # fmt: skip


def as_comparison(node: Node) -> ValueComparison | None:
    """Returns a conjunct of the form *value, operator, literal* as a comparison, any other as None."""
    if isinstance(node, Call):
        if node.function == ast.NOT:
            return _negation(as_comparison(node.args[0]))
        if node.function == ast.IN:
            return _membership(node)
        if node.function in _OPERATORS:
            return _operator_comparison(_OPERATORS[node.function], node.args[0], node.args[1])
        method = _METHODS.get(node.function)
        if method is not None and node.target is not None:
            return _value_comparison(node.target, method, node.args[0])
        return None
    path = _path(node)
    # A boolean attribute without an operator.
    return None if path is None or path[0] == "capacity" else ValueComparison(path, "==", True)


def _negation(inner: ValueComparison | None) -> ValueComparison | None:
    if inner is None or inner.operator == "in":
        return None
    return ValueComparison(inner.path, _NEGATED[inner.operator], inner.literal)


def _operator_comparison(operator: Operator, left: Node, right: Node) -> ValueComparison | None:
    if isinstance(left, Const) and not isinstance(right, Const):
        left, right, operator = right, left, _MIRRORED[operator]
    if isinstance(left, Call) and left.function == "compareTo" and left.target is not None:
        # x.compareTo(y) >= 0, and the spellings with 1 and -1.
        if not isinstance(right, Const) or type(right.value) is not int:
            return None
        equivalent = _COMPARE_TO.get((operator, right.value))
        return None if equivalent is None else _value_comparison(left.target, equivalent, left.args[0])
    return _value_comparison(left, operator, right)


_COMPARE_TO: Final[dict[tuple[Operator, int], Operator]] = {
    **{(operator, 0): operator for operator in _MIRRORED},
    ("==", 1): ">", ("!=", 1): "<=", (">=", 1): ">", ("<", 1): "<=", (">", -1): ">=", ("==", -1): "<",
    ("!=", -1): ">=", ("<=", -1): "<",
}  # fmt: skip


def _value_comparison(left: Node, operator: Operator, right: Node) -> ValueComparison | None:
    path, literal = _path(left), _literal(right)
    if path is not None and literal is not None:
        return ValueComparison(path, operator, literal)
    path, literal = _path(right), _literal(left)
    if path is not None and literal is not None:
        return ValueComparison(path, _MIRRORED[operator], literal)
    return None


def _membership(node: Call) -> ValueComparison | None:
    path = _path(node.args[0])
    literals = node.args[1]
    if path is None or not isinstance(literals, ListExpr) or literals.optional_indices:
        return None
    values = [_literal(element) for element in literals.elements]
    if any(value is None for value in values):
        return None
    return ValueComparison(path, "in", tuple(values))


def _path(node: Node) -> DevicePath | None:
    """The path of a node that selects a single value of the device."""
    base, keys, selections = selection_chain(node)
    if not isinstance(base, Ident) or base.name != "device" or not selections or selections[-1] is not node:
        return None
    for selection in selections:
        if isinstance(selection, ast.Select) and selection.test_only:
            return None
        if isinstance(selection, Call) and selection.function != ast.INDEX:
            return None
    if len(keys) == 1 and keys[0] in ("driver", "allowMultipleAllocations"):
        return (keys[0],)
    if len(keys) == 3 and keys[0] in ("attributes", "capacity"):
        return tuple(keys)
    return None


def _literal(node: Node) -> Value:
    """The value of a literal, ``quantity("…")`` or ``semver("…")``; None for other nodes."""
    if isinstance(node, Const):
        return node.value if node.kind in ("bool", "int", "double", "string") else None
    if isinstance(node, Call) and node.function in ("quantity", "semver") and node.args:
        text = node.args[0]
        if not isinstance(text, Const) or not isinstance(text.value, str):
            return None
        normalize = node.args[1] if len(node.args) > 1 else None
        if normalize is not None and not isinstance(normalize, Const):
            return None
        try:
            if node.function == "quantity":
                return Quantity.parse(text.value)
            return Semver.parse(text.value, normalize is not None and normalize.value is True)
        except (QuantityError, SemverError):
            return None
    return None
