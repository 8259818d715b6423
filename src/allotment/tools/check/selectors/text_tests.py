"""Tests of attributes with literal texts: ``productName.contains("A100")``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from allotment.cel.source_spans import TextSpan
from allotment.cel.syntax.ast import Call, Const
from allotment.engine.diagnosis.letter_case import TESTS
from allotment.tools.check.selectors.expressions import DeviceAccess, Expression

#: The tests as verbs of the value.
_VERBS: Final = {"contains": "contains", "startsWith": "starts with", "endsWith": "ends with", "matches": "matches"}


class TextTest(NamedTuple):
    """A test of a value with a literal text. ``extent``: that of the literal."""

    access: DeviceAccess
    function: str
    text: str
    extent: TextSpan

    @property
    def verb(self) -> str:
        """The test as a verb of the value: ``starts with``."""
        return _VERBS[self.function]


def text_tests(expr: Expression) -> Iterator[TextTest]:
    """The tests of attributes with literals in an expression that compiles."""
    if expr.error is not None:
        return
    by_node = {access.node.id: access for access in expr.accesses}
    for node in expr.nodes:
        if not isinstance(node, Call) or node.function not in TESTS or node.target is None or len(node.args) != 1:
            continue
        access, literal = by_node.get(node.target.id), node.args[0]
        if access is not None and isinstance(literal, Const) and isinstance(literal.value, str):
            yield TextTest(access, node.function, literal.value, expr.extent(literal))
