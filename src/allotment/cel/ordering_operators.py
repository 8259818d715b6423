"""Orderings of quantities and versions written with operators: CEL has them as methods only, which few people know.

``a >= b`` is ``a.compareTo(b) >= 0``.
"""

from __future__ import annotations

from typing import Final

from allotment.cel.device_references import selected
from allotment.cel.errors import CompileError
from allotment.cel.source_spans import Extent, Located, located
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Const, Ident, Node, walk
from allotment.model.quantity import Quantity, QuantityError

ORDERINGS: Final = {ast.LESS: "<", ast.LESS_EQUALS: "<=", ast.GREATER: ">", ast.GREATER_EQUALS: ">="}
_SELECTIONS: Final = frozenset({ast.INDEX, ast.OPT_INDEX, ast.OPT_SELECT})


def mended(source: str) -> str | None:
    """The expression with all such orderings as methods; None where it has none, or does not parse.

    >>> mended('device.capacity["d"].memory >= quantity("40Gi")')
    'device.capacity["d"].memory.compareTo(quantity("40Gi")) >= 0'
    >>> mended('"40Gi" < device.capacity["d"].memory || device.attributes["d"].count > 2')
    'quantity("40Gi").compareTo(device.capacity["d"].memory) < 0 || device.attributes["d"].count > 2'
    """
    try:
        there = located(source)
    except CompileError:
        return None
    changes: list[tuple[Extent, str]] = []
    for node in walk(there.parsed.expr):
        extent = there.extent(node)
        if extent is not None and isinstance(node, Call) and node.function in ORDERINGS:
            left, right = node.args
            if _is_ordered(left) or _is_ordered(right):
                texts = _amount(there, left) or receiver(there, left), _amount(there, right) or there.text(right)
                changes.append((extent, by_method(texts[0], ORDERINGS[node.function], texts[1])))
    text = source
    for (start, stop), change in sorted(changes, reverse=True):
        text = text[:start] + change + text[stop:]
    return text if changes else None


def by_method(left: str, operator: str, right: str) -> str:
    """The text of an ordering. ``left`` can have a method called on it."""
    return f"{left}.compareTo({right}) {operator} 0"


def receiver(there: Located, node: Node) -> str:
    """A node as written, so that a method can be called on it: an operator stands in parentheses."""
    start, stop = there.outer(node) or (0, 0)
    text = there.source[start:stop]
    is_operator = isinstance(node, Call) and not node.function.isidentifier() and node.function not in _SELECTIONS
    return f"({text})" if is_operator and there.outer(node) == there.extent(node) else text


def _is_ordered(node: Node) -> bool:
    """Whether a node is a quantity or version, for all that its text tells."""
    if isinstance(node, Call) and node.function in ("quantity", "semver"):
        return True
    base, keys, _ = selected(node)
    return isinstance(base, Ident) and base.name in ("device", ".device") and keys[:1] == ["capacity"]


def _amount(there: Located, node: Node) -> str:
    """An amount that is written as text, as a quantity; empty for anything else."""
    if not isinstance(node, Const) or not isinstance(node.value, str):
        return ""
    try:
        Quantity.parse(node.value)
    except QuantityError:
        return ""
    return f"quantity({there.text(node)})"
