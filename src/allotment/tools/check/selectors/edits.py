"""Other texts in the place of parts of an expression, for fixes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from allotment.cel import ordering_operators
from allotment.cel.errors import CompileError
from allotment.cel.ordering_operators import by_method
from allotment.cel.source_spans import Extent, located
from allotment.cel.syntax.ast import Call, Node, walk
from allotment.model.editing.edits import Edit, Remove, ReplaceText
from allotment.tools.check.rule import Fix
from allotment.tools.check.selectors.expressions import Access, Expression, Step
from allotment.tools.views import SelectorView, at

#: A text in double quotes, or one in single quotes, which stays as it is.
_STRING: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"([^"'\\]*)["]""")


def replaced(view: SelectorView, extent: Extent, text: str) -> ReplaceText:
    """The edit that puts another text in the place of a part of an expression, in the quotes that are used there."""
    if "'" in view.expression and '"' not in view.expression:
        text = _STRING.sub(lambda found: f"'{found[1]}'" if found[1] is not None else found[0], text)
    return ReplaceText(view.path, extent[0], extent[1], text)


def mended(view: SelectorView, words: str, extent: Extent, text: str, *, safe: bool) -> Fix:
    """The fix that puts another text in the place of a part of an expression."""
    return Fix(words, ((view.document, replaced(view, extent, text)),), safe)


def compared_by_method(read: Expression, left: Node, operator: str, right: Node) -> str:
    """``left.compareTo(right) operator 0``."""
    return by_method(receiver(read, left), operator, bare(read, right))


def receiver(read: Expression, node: Node) -> str:
    """A node as written, so that a method can be called on it: an operator stands in parentheses."""
    return ordering_operators.receiver(read.located, node) if read.located is not None else ""


def bare(read: Expression, node: Node) -> str:
    """A node as written, without parentheses around it, which an argument needs not."""
    return read.located.text(node) if read.located is not None else ""


def named(view: SelectorView, step: Step, name: str) -> ReplaceText:
    """The edit that puts another name in the place of a step's."""
    if step.quoted:
        quote = '"' if view.expression[step.key_extent[1] - 1] == '"' else "'"
        return replaced(view, step.key_extent, f"{quote}{name}{quote}")
    if name.isidentifier() and name.isascii() and name not in ("in", "true", "false", "null"):
        return replaced(view, step.key_extent, name)
    optional = "?" if step.tolerant and isinstance(step.node, Call) else ""
    return replaced(view, step.extent, f'[{optional}"{name}"]')


def _joined(view: SelectorView, edits: Iterable[ReplaceText]) -> ReplaceText:
    """Several replacements in one expression as one, which is applied as a whole."""
    ordered = sorted(edits, key=lambda edit: edit.start)
    text, at_ = "", ordered[0].start
    for edit in ordered:
        text += view.expression[at_ : edit.start] + edit.text
        at_ = edit.stop
    return ReplaceText(view.path, ordered[0].start, at_, text)


def renamed(view: SelectorView, access: Access, full: str, kind: str = "") -> ReplaceText:
    """The edit that makes an access one of another name, in another domain or of the other ``kind`` where need be."""
    domain, _, name = full.rpartition("/")
    edits = [named(view, access.steps[1], name)]
    if domain and domain != access.domain:
        edits.append(named(view, access.steps[0], domain))
    if kind and kind != access.kind:
        edits.append(ReplaceText(view.path, *access.kind_extent, kind))
    return _joined(view, edits)


def without(view: SelectorView, read: Expression, access: Access) -> Fix | None:
    """The fix that takes out the condition in which an access stands, if nothing else stands in it."""
    terms = read.conjuncts
    for number, term in enumerate(terms):
        if not any(node.id == access.node.id for node in walk(term.node)):
            continue
        # What the same condition says of other names would be lost without a word.
        if any(o is not access and any(n.id == o.node.id for n in walk(term.node)) for o in read.accesses):
            return None
        told = " ".join(read.text(term.node).split())
        if len(terms) == 1:
            return Fix(f"remove the selector {told}", ((view.document, _remove(view)),), safe=False)
        start, stop = _span(read, number)
        if not _parses(view.expression[:start] + view.expression[stop:]):
            return None
        edit = ReplaceText(view.path, start, stop, "")
        return Fix(f"remove the condition {told}", ((view.document, edit),), safe=False)
    return None


def _span(read: Expression, number: int) -> Extent:
    """A condition with the ``&&`` that joins it to the others."""
    extents = [read.outer(term.node) for term in read.conjuncts]
    if number:
        return (extents[number - 1][1], extents[number][1])
    return (extents[0][0], extents[1][0])


def _remove(view: SelectorView) -> Edit:
    """The selector's item goes, and the list with its last one."""
    *steps, _, _ = view.path
    selectors = tuple(steps[:-1])
    listed = at(view.document.tree, selectors)
    return Remove(selectors if isinstance(listed, list) and len(listed) == 1 else tuple(steps))


def _parses(text: str) -> bool:
    try:
        located(text)
    except CompileError:
        return False
    return True
