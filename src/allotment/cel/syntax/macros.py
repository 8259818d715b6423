"""Macros: calls that the parser expands, most of them into comprehensions.

The expansions are part of the contract: costs and error positions are defined on them. Every generated node has the
position of the call's parenthesis. A macro is identified by name, argument count and call style; with another argument
count the name is an ordinary call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Comprehension, Const, Ident, ListExpr, MapEntry, MapExpr, Node, Select

_ACCU = ast.ACCUMULATOR
#: The former name of the accumulator; still not allowed as a variable.
_FORMER_ACCU = "__result__"
_SORT_INPUT = "@__sortBy_input__"

#: Limit on the nodes that ``optMap`` copies: their number doubles with each level of nesting.
_MAX_COPIED_NODES = 20_000


class MacroError(Exception):
    """Raised for invalid arguments of a macro. ``pos`` is the offset of the error."""

    def __init__(self, pos: int, message: str) -> None:
        super().__init__(message)
        self.pos = pos


class ExpansionTooLarge(Exception):
    """Raised when macro expansions copy too many nodes."""


class NodeFactory:
    """Creates nodes with consecutive ids; nodes of a macro expansion get ``pos``, the position of its call."""

    __slots__ = ("copied_nodes", "next_id", "pos")

    def __init__(self) -> None:
        self.next_id = 0
        self.pos = 0
        self.copied_nodes = 0

    def id(self) -> int:
        """A fresh node id."""
        self.next_id += 1
        return self.next_id

    def boolean(self, value: bool) -> Const:
        return Const(self.id(), self.pos, value, "bool")

    def integer(self, value: int) -> Const:
        return Const(self.id(), self.pos, value, "int")

    def ident(self, name: str) -> Ident:
        return Ident(self.id(), self.pos, name)

    def accu(self) -> Ident:
        return Ident(self.id(), self.pos, _ACCU)

    def list_(self, *elements: Node) -> ListExpr:
        return ListExpr(self.id(), self.pos, [*elements], ())

    def call(self, function: str, *args: Node) -> Call:
        """A global call."""
        return Call(self.id(), self.pos, function, None, [*args])

    def member(self, target: Node, function: str, *args: Node) -> Call:
        """A member call."""
        return Call(self.id(), self.pos, function, target, [*args])

    def comprehension(
        self,
        macro: str,
        over: Node,
        var: str,
        var2: str | None,
        accu: str,
        init: Node,
        condition: Node,
        step: Node,
        result: Node,
    ) -> Comprehension:
        return Comprehension(self.id(), self.pos, over, var, var2, accu, init, condition, step, result, macro)

    def bind(self, macro: str, name: str, init: Node, body: Node) -> Comprehension:
        """A comprehension over an empty list whose accumulator is the bound variable."""
        return self.comprehension(
            macro, self.list_(), ast.UNUSED, None, name, init, self.boolean(False), self.ident(name), body
        )

    def copy(self, node: Node) -> Node:
        """A copy of a tree with new ids and the original positions."""
        self.copied_nodes += 1
        if self.copied_nodes > _MAX_COPIED_NODES:
            raise ExpansionTooLarge
        match node:
            case Const():
                return Const(self.id(), node.pos, node.value, node.kind)
            case Ident():
                return Ident(self.id(), node.pos, node.name)
            case Select():
                return Select(self.id(), node.pos, self.copy(node.operand), node.field, node.test_only)
            case Call():
                target = None if node.target is None else self.copy(node.target)
                return Call(self.id(), node.pos, node.function, target, [self.copy(a) for a in node.args])
            case ListExpr():
                return ListExpr(self.id(), node.pos, [self.copy(e) for e in node.elements], node.optional_indices)
            case MapExpr():
                entries = [
                    MapEntry(self.id(), self.pos, self.copy(e.key), self.copy(e.value), e.optional)
                    for e in node.entries
                ]
                return MapExpr(self.id(), node.pos, entries)
            case ast.StructExpr():
                fields = [
                    ast.StructField(self.id(), self.pos, f.name, self.copy(f.value), f.optional) for f in node.fields
                ]
                return ast.StructExpr(self.id(), node.pos, node.name, fields)
            case Comprehension():
                return Comprehension(
                    self.id(),
                    node.pos,
                    self.copy(node.iter_range),
                    node.iter_var,
                    node.iter_var2,
                    node.accu_var,
                    self.copy(node.accu_init),
                    self.copy(node.loop_condition),
                    self.copy(node.loop_step),
                    self.copy(node.result),
                    node.macro,
                )


#: Returns the expansion, or None if the call is not a call of this macro.
Macro: TypeAlias = Callable[[NodeFactory, Node, list[Node]], Node | None]


def _variable(node: Node, message: str) -> str:
    if not isinstance(node, Ident):
        raise MacroError(node.pos, message)
    return node.name


def _iteration_variable(node: Node, message: str) -> str:
    name = _variable(node, message)
    if name in (_ACCU, _FORMER_ACCU):
        raise MacroError(node.pos, "iteration variable overwrites accumulator variable")
    return name


def _iteration_variables(first: Node, second: Node) -> tuple[str, str]:
    names = (_variable(first, "argument must be a simple name"), _variable(second, "argument must be a simple name"))
    if names[0] == names[1]:
        raise MacroError(second.pos, f"duplicate variable name: {names[0]}")
    return (_iteration_variable(first, ""), _iteration_variable(second, ""))


def _has(make: NodeFactory, target: Node, args: list[Node]) -> Node:
    operand = args[0]
    if not isinstance(operand, Select):
        raise MacroError(operand.pos, "invalid argument to has() macro")
    return Select(make.id(), make.pos, operand.operand, operand.field, True)


def _quantifier(name: str, two_variables: bool) -> Macro:
    """``all``, ``exists`` and ``exists_one`` with one variable or two."""

    def expand(make: NodeFactory, target: Node, args: list[Node]) -> Node:
        var2: str | None = None
        if two_variables:
            var, var2 = _iteration_variables(args[0], args[1])
        else:
            var = _iteration_variable(args[0], "argument must be a simple name")
        predicate = args[-1]
        init: Node
        condition: Node
        step: Node
        result: Node
        if name == "all":
            init = make.boolean(True)
            condition = make.call(ast.NOT_STRICTLY_FALSE, make.accu())
            step = make.call(ast.AND, make.accu(), predicate)
            result = make.accu()
        elif name == "exists":
            init = make.boolean(False)
            condition = make.call(ast.NOT_STRICTLY_FALSE, make.call(ast.NOT, make.accu()))
            step = make.call(ast.OR, make.accu(), predicate)
            result = make.accu()
        else:
            init = make.integer(0)
            condition = make.boolean(True)
            incremented = make.call(ast.ADD, make.accu(), make.integer(1))
            step = make.call(ast.CONDITIONAL, predicate, incremented, make.accu())
            result = make.call(ast.EQUALS, make.accu(), make.integer(1))
        return make.comprehension(name, target, var, var2, _ACCU, init, condition, step, result)

    return expand


def _list_comprehension(
    make: NodeFactory, macro: str, target: Node, var: str, var2: str | None, keep: Node | None, item: Node
) -> Node:
    """A comprehension that appends ``item`` to a list if ``keep`` is true."""
    init = make.list_()
    condition = make.boolean(True)
    step = make.call(ast.ADD, make.accu(), make.list_(item))
    if keep is not None:
        step = make.call(ast.CONDITIONAL, keep, step, make.accu())
    return make.comprehension(macro, target, var, var2, _ACCU, init, condition, step, make.accu())


def _map(make: NodeFactory, target: Node, args: list[Node]) -> Node:
    var = _iteration_variable(args[0], "argument is not an identifier")
    return _list_comprehension(make, "map", target, var, None, args[1] if len(args) == 3 else None, args[-1])


def _filter(make: NodeFactory, target: Node, args: list[Node]) -> Node:
    var = _iteration_variable(args[0], "argument is not an identifier")
    return _list_comprehension(make, "filter", target, var, None, args[1], args[0])


def _transform_list(make: NodeFactory, target: Node, args: list[Node]) -> Node:
    var, var2 = _iteration_variables(args[0], args[1])
    return _list_comprehension(make, "transformList", target, var, var2, args[2] if len(args) == 4 else None, args[-1])


def _transform_map(entry: bool) -> Macro:
    """``transformMap`` sets one value per key; ``transformMapEntry`` merges the entries of a map."""
    name = "transformMapEntry" if entry else "transformMap"

    def expand(make: NodeFactory, target: Node, args: list[Node]) -> Node:
        var, var2 = _iteration_variables(args[0], args[1])
        if entry:
            step = make.call(ast.MAP_INSERT, make.accu(), args[-1])
        else:
            step = make.call(ast.MAP_INSERT, make.accu(), make.ident(var), args[-1])
        if len(args) == 4:
            step = make.call(ast.CONDITIONAL, args[2], step, make.accu())
        init = MapExpr(make.id(), make.pos, [])
        return make.comprehension(name, target, var, var2, _ACCU, init, make.boolean(True), step, make.accu())

    return expand


def _bind(make: NodeFactory, target: Node, args: list[Node]) -> Node | None:
    if not (isinstance(target, Ident) and target.name == "cel"):
        return None
    name = _variable(args[0], "cel.bind() variable names must be simple identifiers")
    return make.bind("cel.bind", name, args[1], args[2])


def _sort_by(make: NodeFactory, target: Node, args: list[Node]) -> Node:
    if not isinstance(target, (ListExpr, Select, Ident, Comprehension, Call)):
        raise MacroError(
            target.pos, "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        )
    keys = _map(make, make.ident(_SORT_INPUT), args)
    call = make.member(make.ident(_SORT_INPUT), ast.SORT_BY_KEYS, keys)
    return make.bind("sortBy", _SORT_INPUT, target, call)


def _opt_map(flat: bool) -> Macro:
    """``optMap`` wraps the mapped value in an optional; the body of ``optFlatMap`` returns one."""
    name = "optFlatMap" if flat else "optMap"

    def expand(make: NodeFactory, target: Node, args: list[Node]) -> Node:
        var = _variable(args[0], f"{name}() variable name must be a simple identifier")
        present = make.member(target, "hasValue")
        mapped: Node = make.bind(name, var, make.member(make.copy(target), "value"), args[1])
        if not flat:
            mapped = make.call("optional.of", mapped)
        return make.call(ast.CONDITIONAL, present, mapped, make.call("optional.none"))

    return expand


#: (name, number of arguments, member call) -> macro.
MACROS: Mapping[tuple[str, int, bool], Macro] = {
    ("has", 1, False): _has,
    **{(name, 2, True): _quantifier(name, False) for name in ("all", "exists", "exists_one")},
    **{(name, 3, True): _quantifier(name, True) for name in ("all", "exists", "exists_one", "existsOne")},
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map(False),
    ("transformMap", 4, True): _transform_map(False),
    ("transformMapEntry", 3, True): _transform_map(True),
    ("transformMapEntry", 4, True): _transform_map(True),
    ("bind", 3, True): _bind,
    ("optMap", 2, True): _opt_map(False),
    ("optFlatMap", 2, True): _opt_map(True),
    ("sortBy", 2, True): _sort_by,
}

#: The macros of environments without version 3 of the lists library.
MACROS_WITHOUT_SORT_BY: Mapping[tuple[str, int, bool], Macro] = {
    key: macro for key, macro in MACROS.items() if key[0] != "sortBy"
}
