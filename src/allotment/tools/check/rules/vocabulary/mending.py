"""Texts put in the place of parts of an expression, for fixes."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.cel.errors import CompileError
from allotment.cel.extents import Extent, located
from allotment.cel.syntax.ast import walk
from allotment.model.editing.edits import Edit, Remove, ReplaceText
from allotment.tools.check.expressions import Access, Expression
from allotment.tools.check.rule import Fix
from allotment.tools.views import SelectorView, at


def joined(view: SelectorView, edits: Iterable[ReplaceText]) -> ReplaceText:
    """Several replacements in one expression as one, which is applied as a whole."""
    ordered = sorted(edits, key=lambda edit: edit.start)
    text, at_ = "", ordered[0].start
    for edit in ordered:
        text += view.expression[at_ : edit.start] + edit.text
        at_ = edit.stop
    return ReplaceText(view.path, ordered[0].start, at_, text)


def renamed(view: SelectorView, read: Expression, access: Access, full: str, kind: str = "") -> ReplaceText:
    """The edit that makes an access one of another name, in another domain or of the other ``kind`` where need be."""
    domain, _, name = full.rpartition("/")
    edits = [read.named(view, access.steps[1], name)]
    if domain and domain != access.domain:
        edits.append(read.named(view, access.steps[0], domain))
    if kind and kind != access.kind:
        edits.append(ReplaceText(view.path, *access.kind_extent, kind))
    return joined(view, edits)


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
