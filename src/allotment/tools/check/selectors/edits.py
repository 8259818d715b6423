"""Edits that replace parts of an expression, and the fixes made of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from allotment.cel import ordering_operators
from allotment.cel.errors import CompileError
from allotment.cel.ordering_operators import method_ordering
from allotment.cel.source_spans import TextSpan, parse_spans
from allotment.cel.syntax.ast import Call, Node, walk
from allotment.model.editing.edits import Edit, Remove, ReplaceText
from allotment.tools.check.rule import Fix
from allotment.tools.check.selectors.expressions import AccessStep, DeviceAccess, Expression
from allotment.tools.views import SelectorView, at

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
    """The edit that replaces the name in a step."""
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


def remove_condition(view: SelectorView, expr: Expression, access: DeviceAccess) -> Fix | None:
    """The fix that removes the condition around an access; None if the condition reads other names, too."""
    terms = expr.conjuncts
    for number, term in enumerate(terms):
        if not any(node.id == access.node.id for node in walk(term.node)):
            continue
        # Removing the condition would silently drop what it requires of other names.
        if any(o is not access and any(n.id == o.node.id for n in walk(term.node)) for o in expr.accesses):
            return None
        condition = " ".join(expr.text(term.node).split())
        if len(terms) == 1:
            return Fix(f"remove the selector {condition}", ((view.document, _remove_selector(view)),), safe=False)
        start, stop = _span(expr, number)
        if not _parses(view.expression[:start] + view.expression[stop:]):
            return None
        edit = ReplaceText(view.path, start, stop, "")
        return Fix(f"remove the condition {condition}", ((view.document, edit),), safe=False)
    return None


def _span(expr: Expression, number: int) -> TextSpan:
    """The extent of a condition with the ``&&`` that joins it to the others."""
    extents = [expr.outer(term.node) for term in expr.conjuncts]
    if number:
        return (extents[number - 1][1], extents[number][1])
    return (extents[0][0], extents[1][0])


def _remove_selector(view: SelectorView) -> Edit:
    """The edit that removes the selector's item, or the list if it is the only item."""
    *steps, _, _ = view.path
    selectors = tuple(steps[:-1])
    listed = at(view.document.tree, selectors)
    return Remove(selectors if isinstance(listed, list) and len(listed) == 1 else tuple(steps))


def _parses(text: str) -> bool:
    try:
        parse_spans(text)
    except CompileError:
        return False
    return True
