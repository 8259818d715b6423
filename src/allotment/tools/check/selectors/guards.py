"""Whether a condition can be true, or false, without reading some name: then a device without the name is no error yet.

``false && error`` is false and ``true || error`` is true, on either side; everything else passes errors on.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Comprehension, Node
from allotment.tools.check.selectors.expressions import Access, Expression


def reads(read: Expression, node: Node, wanted: Callable[[Access], bool], becomes: bool | None) -> bool:
    """Whether a node comes to ``becomes`` (None: to anything) only by reading a name that is ``wanted``."""
    names = {a.steps[1].node.id for a in read.accesses if a.name and not a.tolerant and wanted(a)}
    return _reads(node, names, becomes)


def _reads(node: Node, names: Container[int], becomes: bool | None) -> bool:
    if node.id in names:
        return True
    if isinstance(node, Comprehension):
        return _reads(node.iter_range, names, None)
    if not isinstance(node, Call):
        return any(_reads(one, names, None) for one in ast.children(node))
    match node.function:
        case ast.AND | ast.OR if becomes is None:
            return _reads(node, names, True) and _reads(node, names, False)
        case ast.AND | ast.OR:
            found = [_reads(one, names, becomes) for one in node.args]
            # One operand is enough for the value that decides; the other needs them all.
            return all(found) if becomes is (node.function == ast.OR) else any(found)
        case ast.NOT:
            return _reads(node.args[0], names, None if becomes is None else not becomes)
        case ast.CONDITIONAL:
            condition, *ways = node.args
            return all(
                _reads(condition, names, value) or _reads(way, names, becomes)
                for value, way in zip((True, False), ways, strict=True)
            )
        case "orValue" | "or" if node.target is not None:
            return _reads(node.target, names, None)
    return any(_reads(one, names, None) for one in ast.children(node))
