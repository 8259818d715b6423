"""What of a selector must hold, so that what is wrong there is wrong for every device."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.cel.source_spans import Extent
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Comprehension, Node, walk
from allotment.tools.check.selectors.expressions import Access, Compared, Expression

#: Below these nothing is certain: one side may be false, or true, without the other.
_CHOICES = frozenset({ast.OR, ast.NOT, ast.NOT_EQUALS, ast.CONDITIONAL})


def certain_comparisons(read: Expression) -> Iterator[Compared]:
    """The comparisons that must hold: the operands of the outermost ``&&``."""
    outermost = {term.node.id for term in read.conjuncts}
    return (one for one in read.compared if one.node.id in outermost)


def is_certain(read: Expression, access: Access) -> bool:
    """Whether a device without the attribute can never be selected: the access stands below no alternative."""
    return not access.tolerant and is_certain_at(read, access.extent)


def is_certain_at(read: Expression, extent: Extent) -> bool:
    """Whether what stands there must be true: it is below no alternative."""
    for term in read.conjuncts:
        if term.start <= extent[0] and extent[1] <= term.stop:
            return not any(_is_choice(node) for node in walk(term.node))
    return False


def _is_choice(node: Node) -> bool:
    return isinstance(node, Comprehension) or (isinstance(node, Call) and node.function in _CHOICES)
