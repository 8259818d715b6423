"""Rewrites order comparisons of quantities and versions from operators to methods: CEL has no operators for them.

``a >= b`` becomes ``a.compareTo(b) >= 0``.
"""

from __future__ import annotations

from typing import Final

from allotment.cel.device_references import selection_chain
from allotment.cel.errors import CompileError
from allotment.cel.source_spans import SourceSpans, TextSpan, parse_spans
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Const, Ident, Node, walk
from allotment.model.quantity import Quantity, QuantityError

ORDERINGS: Final = {ast.LESS: "<", ast.LESS_EQUALS: "<=", ast.GREATER: ">", ast.GREATER_EQUALS: ">="}
_SELECTIONS: Final = frozenset({ast.INDEX, ast.OPT_INDEX, ast.OPT_SELECT})


def rewrite_orderings(source: str) -> str | None:
    """Returns the expression with all such comparisons rewritten; None if it has none or does not parse.

    >>> rewrite_orderings('device.capacity["d"].memory >= quantity("40Gi")')
    'device.capacity["d"].memory.compareTo(quantity("40Gi")) >= 0'
    >>> rewrite_orderings('"40Gi" < device.capacity["d"].memory || device.attributes["d"].count > 2')
    'quantity("40Gi").compareTo(device.capacity["d"].memory) < 0 || device.attributes["d"].count > 2'
    """
    try:
        spans = parse_spans(source)
    except CompileError:
        return None
    replacements: list[tuple[TextSpan, str]] = []
    for node in walk(spans.parsed.expr):
        span = spans.span(node)
        if span is not None and isinstance(node, Call) and node.function in ORDERINGS:
            left, right = node.args
            if _is_ordered(left) or _is_ordered(right):
                texts = (
                    _quantity_call(spans, left) or receiver(spans, left),
                    _quantity_call(spans, right) or spans.text(right),
                )
                replacements.append((span, method_ordering(texts[0], ORDERINGS[node.function], texts[1])))
    text = source
    for (start, stop), replacement in sorted(replacements, reverse=True):
        text = text[:start] + replacement + text[stop:]
    return text if replacements else None


def method_ordering(left: str, operator: str, right: str) -> str:
    """The text of an order comparison by method. ``left`` must be a valid receiver (see :func:`receiver`)."""
    return f"{left}.compareTo({right}) {operator} 0"


def receiver(spans: SourceSpans, node: Node) -> str:
    """A node's text as the receiver of a method call: operators are parenthesized."""
    start, stop = spans.outer_span(node) or (0, 0)
    text = spans.source[start:stop]
    is_operator = isinstance(node, Call) and not node.function.isidentifier() and node.function not in _SELECTIONS
    return f"({text})" if is_operator and spans.outer_span(node) == spans.span(node) else text


def _is_ordered(node: Node) -> bool:
    """Whether a node is recognizable as a quantity or version without type information."""
    if isinstance(node, Call) and node.function in ("quantity", "semver"):
        return True
    base, keys, _ = selection_chain(node)
    return isinstance(base, Ident) and base.name in ("device", ".device") and keys[:1] == ["capacity"]


def _quantity_call(spans: SourceSpans, node: Node) -> str:
    """``quantity("40Gi")`` for the string literal ``"40Gi"``; empty for anything else."""
    if not isinstance(node, Const) or not isinstance(node.value, str):
        return ""
    try:
        Quantity.parse(node.value)
    except QuantityError:
        return ""
    return f"quantity({spans.text(node)})"
