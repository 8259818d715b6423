"""Edits that replace parts of an expression, and the fixes made of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from allotment.cel import ordering_operators
from allotment.cel.ordering_operators import method_ordering
from allotment.cel.source_spans import TextSpan
from allotment.cel.syntax.ast import Call, Node
from allotment.model.editing.edits import ReplaceText
from allotment.tools.check.rule import Fix
from allotment.tools.check.selectors.expressions import AccessStep, DeviceAccess, Expression
from allotment.tools.views import SelectorView

#: A string in double quotes, or one in single quotes, which is kept as it is.
_STRING: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"([^"'\\]*)["]""")


def replace_extent(view: SelectorView, extent: TextSpan, text: str) -> ReplaceText:
    """The edit that replaces a part of an expression, with the quotes that the expression uses."""
    return ReplaceText(view.path, extent[0], extent[1], with_quotes_of(view.expression, text))


def with_quotes_of(expression: str, text: str) -> str:
    """A part of an expression with the quotes that the expression uses.

    >>> with_quotes_of("device.driver == 'gpu.nvida.com'", '"gpu.nvidia.com"')
    "'gpu.nvidia.com'"
    """
    if "'" in expression and '"' not in expression:
        return _STRING.sub(lambda match: f"'{match[1]}'" if match[1] is not None else match[0], text)
    return text


def replacement_fix(view: SelectorView, description: str, extent: TextSpan, text: str, *, safe: bool) -> Fix:
    """The fix that replaces a part of an expression."""
    return Fix(description, ((view.document, replace_extent(view, extent, text)),), safe)


def compare_by_method(expr: Expression, left: Node, operator: str, right: Node) -> str:
    """The text ``left.compareTo(right) operator 0``."""
    return method_ordering(receiver(expr, left), operator, source_text(expr, right))


def receiver(expr: Expression, node: Node) -> str:
    """The text of a node as the receiver of a method call, in parentheses if it is an operator."""
    return ordering_operators.receiver(expr.located, node) if expr.located is not None else ""


def source_text(expr: Expression, node: Node) -> str:
    """The text of a node without enclosing parentheses, as an argument."""
    return expr.located.text(node) if expr.located is not None else ""


def rename_step(view: SelectorView, step: AccessStep, name: str) -> ReplaceText:
    """The edit that replaces the name in a step; quotes stay, unless only the old name needs them."""
    if step.is_quoted and not step.key.isidentifier() and name.isidentifier() and not step.is_optional:
        return replace_extent(view, step.extent, f".{name}")
    if step.is_quoted:
        quote = '"' if view.expression[step.key_extent[1] - 1] == '"' else "'"
        return replace_extent(view, step.key_extent, f"{quote}{name}{quote}")
    if name.isidentifier() and name.isascii() and name not in ("in", "true", "false", "null"):
        return replace_extent(view, step.key_extent, name)
    optional = "?" if step.is_optional and isinstance(step.node, Call) else ""
    return replace_extent(view, step.extent, f'[{optional}"{name}"]')


def _merge(view: SelectorView, edits: Iterable[ReplaceText]) -> ReplaceText:
    """Several replacements in one expression as a single edit."""
    ordered = sorted(edits, key=lambda edit: edit.start)
    text, position = "", ordered[0].start
    for edit in ordered:
        text += view.expression[position : edit.start] + edit.text
        position = edit.stop
    return ReplaceText(view.path, ordered[0].start, position, text)


def rename_access(view: SelectorView, access: DeviceAccess, full_name: str, kind: str = "") -> ReplaceText:
    """The edit that changes the name of an access and, if necessary, its domain and ``kind``."""
    domain, _, name = full_name.rpartition("/")
    edits = [rename_step(view, access.steps[1], name)]
    if domain and domain != access.domain:
        edits.append(rename_step(view, access.steps[0], domain))
    if kind and kind != access.kind:
        edits.append(ReplaceText(view.path, *access.kind_extent, kind))
    return _merge(view, edits)
