"""Where each part of an expression stands in its text, for those who underline it or write it anew.

Nodes know one position, that of the operator. Here is what surrounds it: ``located`` parses a text once more, with a
parser that notes where every node starts and stops. Ids are given in the order of the text, so the extents of one
parse are good for the nodes of another of the same text (also for those that the checker has put in their place).

>>> there = located('device.capacity["d"].memory >= quantity("40Gi") && (true)')
>>> first, second = (term.node for term in there.parsed.conjuncts())
>>> there.text(first.args[1]), there.extent(first.args[0])
('quantity("40Gi")', (0, 27))
>>> there.text(second), there.outer(second)  # with its parentheses
('true', (51, 57))
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from allotment.cel.errors import Issues
from allotment.cel.syntax.ast import NEGATE, NOT, Call, Node, Parsed
from allotment.cel.syntax.lexer import Token
from allotment.cel.syntax.macros import MACROS
from allotment.cel.syntax.parser import Macros, Parser, parse_with

#: Code point offsets in the text: where it starts, and one past its end.
Extent: TypeAlias = tuple[int, int]


class Located:
    """A parsed expression whose nodes have a place.

    Nodes that a macro made have none, as nobody wrote them, nor has the name after ``.?``, which is no expression.
    """

    def __init__(self, parsed: Parsed, inner: dict[int, Extent], outer: dict[int, Extent]) -> None:
        self.parsed = parsed
        self.source = parsed.source
        self._inner = inner
        self._outer = outer

    def extent(self, node: Node) -> Extent | None:
        """Where a node stands, without parentheses around it; its text parses to an equal node."""
        found = self._inner.get(node.id)
        if found is None and isinstance(node, Call):
            found = self._between(node)
            if found is not None:
                self._inner[node.id] = found
        return found

    def outer(self, node: Node) -> Extent | None:
        """Where a node stands, with the parentheses around it: what can be replaced by an operand of any kind."""
        return self._outer.get(node.id) or self.extent(node)

    def text(self, node: Node) -> str:
        """A node as written, without parentheses around it; empty for a node that nobody wrote."""
        start, stop = self.extent(node) or (0, 0)
        return self.source[start:stop]

    def _between(self, node: Call) -> Extent | None:
        """An operator reaches from its first operand to its last."""
        if node.target is not None or not node.args:
            return None
        # A macro's operators have an operand that nobody wrote.
        first, last = self.outer(node.args[0]), self.outer(node.args[-1])
        if first is None or last is None:
            return None
        return (node.pos if node.function in (NOT, NEGATE) else first[0], last[1])


def located(source: str, macros: Macros = MACROS) -> Located:
    """An expression with the places of its parts. Raises CompileError where it does not parse; types do not matter."""
    parsed, parser = parse_with(_Noting, source, macros)
    return Located(parsed, parser.inner, parser.outer)


class _Noting(Parser):
    """Notes where operands start and stop; what operators span follows from theirs."""

    __slots__ = ("inner", "outer")

    # Each bracket takes two frames more than for the parser alone.
    shallow_tokens: ClassVar[int] = 64

    def __init__(self, tokens: list[Token], issues: Issues, macros: Macros) -> None:
        super().__init__(tokens, issues, macros)
        self.inner: dict[int, Extent] = {}
        self.outer: dict[int, Extent] = {}

    def noted(self, node: Node, start: int) -> Node:
        """The node, which reaches from ``start`` to the last token read."""
        extent = (start, self.stop())
        if node.id not in self.outer:
            self.inner[node.id] = extent
        self.outer[node.id] = extent
        return node

    def unary(self) -> Node:
        start = self.tokens[self.at].pos
        return self.noted(super().unary(), start)

    def primary(self) -> Node:
        token = self.tokens[self.at]
        node = super().primary()
        if token.kind == "(":
            # Only what surrounds it is new: an operator in parentheses is worked out from its operands.
            self.outer[node.id] = (token.pos, self.stop())
            return node
        return self.noted(node, token.pos)

    def selection(self, operand: Node, pos: int) -> Node:
        start = self.outer[operand.id][0]
        return self.noted(super().selection(operand, pos), start)

    def index(self, operand: Node, pos: int) -> Node:
        start = self.outer[operand.id][0]
        return self.noted(super().index(operand, pos), start)
