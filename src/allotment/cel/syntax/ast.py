"""The abstract syntax tree that all stages of the compiler share.

Its shape is that of cel-go's: operators are calls with CEL's internal names (``_&&_``; optional selection is ``_?._``
with a string literal as its second argument), macros are expanded into comprehensions, and chains of ``&&`` and ``||``
are balanced trees. Costs are defined on this shape, so a stage that needs another form builds its own.

Every node has an ``id``, unique in its tree, and a ``pos``: the code point offset that errors about the node report
(the operator of a binary operation, the ``(`` of a call, the ``.`` of a selection, the ``[`` of an index). Nodes are
mutable because the checker replaces qualified names (``net.IP``, ``sets.contains(...)``); after that they do not
change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

ConstKind: TypeAlias = Literal["null", "bool", "int", "uint", "double", "string", "bytes"]
ConstValue: TypeAlias = "None | bool | int | float | str | bytes"

# Internal operator names.
AND = "_&&_"
OR = "_||_"
NOT = "!_"
NEGATE = "-_"
CONDITIONAL = "_?_:_"
EQUALS = "_==_"
NOT_EQUALS = "_!=_"
LESS = "_<_"
LESS_EQUALS = "_<=_"
GREATER = "_>_"
GREATER_EQUALS = "_>=_"
ADD = "_+_"
SUBTRACT = "_-_"
MULTIPLY = "_*_"
DIVIDE = "_/_"
MODULO = "_%_"
IN = "@in"
INDEX = "_[_]"
OPT_INDEX = "_[?_]"
OPT_SELECT = "_?._"
NOT_STRICTLY_FALSE = "@not_strictly_false"
MAP_INSERT = "cel.@mapInsert"
SORT_BY_KEYS = "@sortByAssociatedKeys"

#: Accumulator of the macros; not a valid identifier in an expression.
ACCUMULATOR = "@result"
#: Iteration variable of ``cel.bind`` and ``sortBy``, whose loops have no iterations.
UNUSED = "#unused"


class Const:
    """A literal. Depending on ``kind``, ``value`` is None, bool, int (for int and uint), float, str or bytes."""

    __slots__ = ("id", "pos", "value", "kind")

    def __init__(self, id: int, pos: int, value: ConstValue, kind: ConstKind) -> None:
        self.id = id
        self.pos = pos
        self.value = value
        self.kind = kind


class Ident:
    """A variable or type name. Before checking it may start with a dot (root scope); after checking it never does."""

    __slots__ = ("id", "pos", "name")

    def __init__(self, id: int, pos: int, name: str) -> None:
        self.id = id
        self.pos = pos
        self.name = name


class Select:
    """``operand.field``, or ``has(operand.field)`` when ``test_only``."""

    __slots__ = ("id", "pos", "operand", "field", "test_only")

    def __init__(self, id: int, pos: int, operand: Node, field: str, test_only: bool) -> None:
        self.id = id
        self.pos = pos
        self.operand = operand
        self.field = field
        self.test_only = test_only


class Call:
    """A call or operator. ``target`` is None for global functions and operators; namespaced functions
    (``optional.of``, ``sets.contains``) are global after checking, under their full name."""

    __slots__ = ("id", "pos", "function", "target", "args")

    def __init__(self, id: int, pos: int, function: str, target: Node | None, args: list[Node]) -> None:
        self.id = id
        self.pos = pos
        self.function = function
        self.target = target
        self.args = args


class ListExpr:
    """A list literal; ``optional_indices`` are the positions of ``?element``."""

    __slots__ = ("id", "pos", "elements", "optional_indices")

    def __init__(self, id: int, pos: int, elements: list[Node], optional_indices: tuple[int, ...]) -> None:
        self.id = id
        self.pos = pos
        self.elements = elements
        self.optional_indices = optional_indices


class MapEntry:
    """One ``key: value`` of a map literal; ``pos`` is that of the colon."""

    __slots__ = ("id", "pos", "key", "value", "optional")

    def __init__(self, id: int, pos: int, key: Node, value: Node, optional: bool) -> None:
        self.id = id
        self.pos = pos
        self.key = key
        self.value = value
        self.optional = optional


class MapExpr:
    """A map literal."""

    __slots__ = ("id", "pos", "entries")

    def __init__(self, id: int, pos: int, entries: list[MapEntry]) -> None:
        self.id = id
        self.pos = pos
        self.entries = entries


class StructField:
    """One ``field: value`` of a message literal; ``pos`` is that of the colon."""

    __slots__ = ("id", "pos", "name", "value", "optional")

    def __init__(self, id: int, pos: int, name: str, value: Node, optional: bool) -> None:
        self.id = id
        self.pos = pos
        self.name = name
        self.value = value
        self.optional = optional


class StructExpr:
    """A message literal. Only ``google.protobuf`` well-known types are declared."""

    __slots__ = ("id", "pos", "name", "fields")

    def __init__(self, id: int, pos: int, name: str, fields: list[StructField]) -> None:
        self.id = id
        self.pos = pos
        self.name = name
        self.fields = fields


class Comprehension:
    """A loop: ``accu = accu_init; for var in iter_range: if not loop_condition: break; accu = loop_step; result``.

    ``iter_var2`` is None in the one-variable form. ``macro`` is the macro that generated it, for diagnostics.
    """

    __slots__ = (
        "id",
        "pos",
        "iter_range",
        "iter_var",
        "iter_var2",
        "accu_var",
        "accu_init",
        "loop_condition",
        "loop_step",
        "result",
        "macro",
    )

    def __init__(
        self,
        id: int,
        pos: int,
        iter_range: Node,
        iter_var: str,
        iter_var2: str | None,
        accu_var: str,
        accu_init: Node,
        loop_condition: Node,
        loop_step: Node,
        result: Node,
        macro: str,
    ) -> None:
        self.id = id
        self.pos = pos
        self.iter_range = iter_range
        self.iter_var = iter_var
        self.iter_var2 = iter_var2
        self.accu_var = accu_var
        self.accu_init = accu_init
        self.loop_condition = loop_condition
        self.loop_step = loop_step
        self.result = result
        self.macro = macro


Node: TypeAlias = Const | Ident | Select | Call | ListExpr | MapExpr | StructExpr | Comprehension


@dataclass(frozen=True, slots=True)
class ChainOperand:
    """One operand of a ``&&`` chain: its node, and the code point range of its text."""

    node: Node
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class ParsedExpression:
    """The result of the parser: the tree, the text, and the operands of every ``&&`` chain.

    ``chains`` maps the id of a chain's root node to its operands in source order, which the balanced tree does not
    show.
    """

    expr: Node
    source: str
    chains: dict[int, tuple[ChainOperand, ...]]

    def conjuncts(self) -> tuple[ChainOperand, ...]:
        """The operands of the outermost ``&&``, with nested and parenthesized chains flattened; without ``&&`` the
        whole expression is the only one."""
        found: list[ChainOperand] = []
        stack = [ChainOperand(self.expr, 0, len(self.source))]
        while stack:
            term = stack.pop()
            chain = self.chains.get(term.node.id)
            if chain is None:
                found.append(term)
            else:
                stack.extend(reversed(chain))
        return tuple(found)


def children(node: Node) -> Iterator[Node]:
    """The direct subexpressions of a node, in evaluation order."""
    match node:
        case Select():
            yield node.operand
        case Call():
            if node.target is not None:
                yield node.target
            yield from node.args
        case ListExpr():
            yield from node.elements
        case MapExpr():
            for entry in node.entries:
                yield entry.key
                yield entry.value
        case StructExpr():
            for field in node.fields:
                yield field.value
        case Comprehension():
            yield node.iter_range
            yield node.accu_init
            yield node.loop_condition
            yield node.loop_step
            yield node.result
        case _:
            return


def walk(node: Node) -> Iterator[Node]:
    """All nodes of a tree in pre-order, without recursion."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(list(children(current))))
