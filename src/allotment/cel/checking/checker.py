"""The type checker: resolves the names, fields and overloads of a parsed expression.

Argument types are unified with overload signatures whose type parameters are fresh per call; ``dyn``, ``Any`` and
errors unify with everything. The fresh parameters (``_var0``, …) are numbered as upstream, because error texts can
contain them. For argument types without parameters the result depends on nothing else and is cached per function, so a
typical call costs one dictionary lookup. The rules, one per kind of node, share their state, so they are in one file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from allotment.cel.checking import types
from allotment.cel.checking.checked_expression import CheckedExpression
from allotment.cel.checking.declarations import FunctionDeclaration, Overload
from allotment.cel.checking.environment import Environment
from allotment.cel.checking.types import BOOL, DYN, ERROR, INT, STRING, Type, TypeKind, list_of, map_of, optional_of
from allotment.cel.checking.unify import Bindings, are_assignable, is_assignable, most_general, substitute
from allotment.cel.errors import Issues
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import (
    Call,
    Comprehension,
    Const,
    Ident,
    ListExpr,
    MapExpr,
    Node,
    ParsedExpression,
    Select,
    StructExpr,
)
from allotment.cel.syntax.parser import RESERVED

# fmt: off
_CONST_TYPES: dict[str, Type] = {
    "null": types.NULL, "bool": BOOL, "int": INT, "uint": types.UINT, "double": types.DOUBLE, "string": STRING,
    "bytes": types.BYTES,
}
# fmt: on

#: Argument types -> (overload ids, result type), or None if no overload matches.
_Outcome = tuple[tuple[str, ...], Type] | None
_CALL_CACHE: dict[tuple[Overload, ...], dict[tuple[Type, ...], _Outcome]] = {}
_MAX_CACHED_CALLS = 4096


def check(parsed: ParsedExpression, environment: Environment) -> CheckedExpression:
    """Checks the types of an expression. Raises CompileError with all errors, ordered by position."""
    issues = Issues(parsed.source)
    checker = _Checker(environment, issues)
    try:
        expr = checker.check(parsed.expr)
        bindings = checker.bindings
        for id_, t in checker.types.items():
            if not t.closed:
                checker.types[id_] = substitute(bindings, t, True)
        for ident in checker.variables:
            if checker.types[ident.id].kind is TypeKind.TYPE:
                # Upstream's planner treats any identifier with a type value as the name of a type.
                checker.type_names[ident.id] = ident.name
    except types.TypeTooLargeError:
        issues.report(-1, "expression has a type that is too large")
        raise issues.error() from None
    if issues:
        raise issues.error()
    return CheckedExpression(
        expr, parsed, environment, checker.types, checker.overloads, checker.type_names, checker.types[expr.id]
    )


class _Checker:
    """The state of one check. The methods for nodes return the replacement of their argument."""

    __slots__ = (
        "environment",
        "functions",
        "issues",
        "types",
        "overloads",
        "type_names",
        "bindings",
        "fresh",
        "scopes",
        "variables",
    )

    def __init__(self, environment: Environment, issues: Issues) -> None:
        self.environment = environment
        self.functions = environment.functions
        self.issues = issues
        self.types: dict[int, Type] = {}
        self.overloads: dict[int, tuple[str, ...]] = {}
        self.type_names: dict[int, str] = {}
        self.bindings: Bindings = {}
        self.fresh = 0
        #: Variables of the enclosing comprehensions, innermost last.
        self.scopes: list[dict[str, Type]] = []
        #: Identifiers that refer to variables of comprehensions.
        self.variables: list[Ident] = []

    def check(self, node: Node) -> Node:
        """Checks a node and everything below it."""
        return _CHECKS[node.__class__](self, node)

    def fresh_param(self) -> Type:
        """A new type parameter."""
        param = types.param(f"_var{self.fresh}")
        self.fresh += 1
        return param

    def report_undeclared(self, pos: int, name: str) -> None:
        self.issues.report(pos, f"undeclared reference to '{name}' (in container '{self.environment.container}')")

    # Names.

    def lookup(self, name: str) -> tuple[str, Type, bool] | None:
        """Resolves a name: its full name, its type as an expression, and whether it names a type."""
        for full in self.environment.candidate_names(name):
            for scope in reversed(self.scopes):
                t = scope.get(full)
                if t is not None:
                    return full, t, False
            t = self.environment.variables.get(full)
            if t is not None:
                return full, t, False
            t = self.environment.type_names.get(full)
            if t is not None:
                return full, types.type_of(t), True
        return None

    def function(self, name: str) -> FunctionDeclaration | None:
        """The function that a name denotes."""
        for full in self.environment.candidate_names(name):
            function = self.functions.get(full)
            if function is not None:
                return function
        return None

    def resolve(self, node: Node, name: str) -> Node | None:
        """The typed identifier that replaces ``node`` if ``name`` is declared, else None."""
        found = self.lookup(name)
        if found is None:
            return None
        full, t, is_type = found
        self.types[node.id] = t
        ident = Ident(node.id, node.pos, full)
        if is_type:
            self.type_names[node.id] = full
        elif self.scopes:
            self.variables.append(ident)
        return ident

    def ident(self, node: Ident) -> Node:
        resolved = self.resolve(node, node.name)
        if resolved is not None:
            return resolved
        self.types[node.id] = ERROR
        self.report_undeclared(node.pos, node.name)
        return node

    def const(self, node: Const) -> Node:
        self.types[node.id] = _CONST_TYPES[node.kind]
        return node

    # Selection.

    def select(self, node: Select) -> Node:
        if not node.test_only:
            qualified = _qualified(node, self.environment.dotted_roots)
            if qualified is not None:
                resolved = self.resolve(node, qualified)
                if resolved is not None:
                    return resolved
        node.operand = self.check(node.operand)
        node.field = self.declared_name(node.operand, node.field)
        result = self.field(node, node.operand, node.field, False)
        self.types[node.id] = BOOL if node.test_only else result
        return node

    def opt_select(self, node: Call) -> Node:
        operand, field = node.args
        if not (isinstance(field, Const) and isinstance(field.value, str)):
            self.issues.report(field.pos, "unsupported optional field selection")
            self.types[node.id] = ERROR
            return node
        node.args[0] = operand = self.check(operand)
        field.value = self.declared_name(operand, field.value)
        self.types[field.id] = STRING
        self.types[node.id] = self.field(node, operand, field.value, True)
        self.overloads[node.id] = ("select_optional_field",)
        return node

    def declared_name(self, operand: Node, field: str) -> str:
        """The name by which objects declare a field: a reserved word is escaped, but expressions may also use it as it
        is (Kubernetes 1.31)."""
        if field not in RESERVED:
            return field
        target = substitute(self.bindings, self.types[operand.id], False)
        if target.kind is TypeKind.OPAQUE and target.name == "optional_type":
            target = target.params[0]
        fields = self.environment.structs.get(target.name, {}) if target.kind is TypeKind.STRUCT else {}
        escaped = f"__{field}__"
        return escaped if field not in fields and escaped in fields else field

    def field(self, node: Node, operand: Node, field: str, optional: bool) -> Type:
        """The type of a field, as an optional type if the operand or the selection is optional."""
        target = self.types[operand.id]
        if not target.closed:
            target = substitute(self.bindings, target, False)
        if target.kind is TypeKind.OPAQUE and target.name == "optional_type":
            target = target.params[0]
            optional = True
        match target.kind:
            case TypeKind.MAP:
                result = target.params[1]
            case TypeKind.STRUCT:
                result = self.struct_field(node.pos, target.name, field) or ERROR
            case TypeKind.PARAM:
                is_assignable(self.bindings, DYN, target)
                result = DYN
            case TypeKind.DYN | TypeKind.ANY | TypeKind.ERROR:
                result = DYN
            case _:
                self.issues.report(node.pos, f"type '{target.display_name}' does not support field selection")
                result = DYN
        if optional:
            result = optional_of(result)
        return result if result.closed else substitute(self.bindings, result, False)

    def struct_field(self, pos: int, struct: str, field: str) -> Type | None:
        """The declared type of an object's field; None, with an error reported, if there is none."""
        fields = self.environment.structs.get(struct)
        if fields is None:
            self.issues.report(pos, f"unexpected failed resolution of '{struct}'")
            return None
        t = fields.get(field)
        if t is None:
            self.issues.report(pos, f"undefined field '{field}'")
        return t

    # Calls.

    def call(self, node: Call) -> Node:
        if node.function == ast.OPT_SELECT:
            return self.opt_select(node)
        args = node.args
        check = self.check
        for i, arg in enumerate(args):
            args[i] = check(arg)
        target = node.target
        if target is None:
            function = self.function(node.function)
            if function is not None:
                node.function = function.name
                return self.resolve_call(node, function, function.globals, args)
        else:
            # a.b.f() is either the method f of a.b or the function a.b.f.
            prefix = _qualified(target, None)
            if prefix is not None:
                function = self.function(f"{prefix}.{node.function}")
                if function is not None:
                    node.function = function.name
                    node.target = None
                    return self.resolve_call(node, function, function.globals, args)
            node.target = target = check(target)
            function = self.function(node.function)
            if function is not None:
                return self.resolve_call(node, function, function.members, (target, *args))
        self.types[node.id] = ERROR
        self.report_undeclared(node.pos, node.function)
        return node

    def resolve_call(
        self, node: Call, function: FunctionDeclaration, overloads: tuple[Overload, ...], operands: Sequence[Node]
    ) -> Node:
        """Records the overloads that match the operands, and the result type."""
        known = self.types
        arg_types = tuple([known[o.id] for o in operands])
        if function.name == ast.AND or function.name == ast.OR:
            self.logic(node, operands, arg_types)
            return node
        outcome: _Outcome
        for t in arg_types:
            if not t.closed:
                outcome = self.unify_call(overloads, arg_types, self.bindings)
                break
        else:
            cached = _CALL_CACHE.get(overloads)
            if cached is None:
                cached = _CALL_CACHE.setdefault(overloads, {})
            try:
                outcome = cached[arg_types]
                if outcome is None or outcome[1].closed:
                    self.fresh += _param_count(overloads)
                else:
                    outcome = self.unify_call(overloads, arg_types, self.bindings)
            except KeyError:
                outcome = self.unify_call(overloads, arg_types, self.bindings)
                if len(cached) >= _MAX_CACHED_CALLS:
                    cached.clear()
                cached[arg_types] = outcome
        if outcome is None:
            self.types[node.id] = ERROR
            shown = [substitute(self.bindings, t, True).display_name for t in arg_types]
            receiver = "" if node.target is None else f"{shown.pop(0)}."
            self.issues.report(
                node.pos,
                f"found no matching overload for '{function.name}' applied to '{receiver}({', '.join(shown)})'",
            )
            return node
        self.overloads[node.id], self.types[node.id] = outcome
        return node

    def unify_call(self, overloads: tuple[Overload, ...], arg_types: tuple[Type, ...], bindings: Bindings) -> _Outcome:
        """Tries every overload in order; the bindings of matching ones accumulate."""
        matched: list[str] = []
        result: Type | None = None
        for overload in overloads:
            params, overload_result = overload.params, overload.result
            if overload.type_params:
                fresh = {p: self.fresh_param() for p in overload.type_params}
                if len(params) != len(arg_types):
                    continue
                params = tuple([p if p.closed else substitute(fresh, p, False) for p in params])
                if not overload_result.closed:
                    overload_result = substitute(fresh, overload_result, False)
            if not are_assignable(bindings, arg_types, params):
                continue
            matched.append(overload.id)
            if not overload_result.closed:
                overload_result = substitute(bindings, overload_result, False)
            if result is None:
                result = overload_result
            elif not result.dynamic and overload_result is not result:
                result = DYN
        return None if result is None else (tuple(matched), result)

    def logic(self, node: Call, operands: Sequence[Node], arg_types: tuple[Type, ...]) -> None:
        """``&&`` and ``||`` report errors at the operand, not at the operator."""
        self.types[node.id] = BOOL
        self.overloads[node.id] = ("logical_and" if node.function == ast.AND else "logical_or",)
        for operand, t in zip(operands, arg_types, strict=True):
            if t is not BOOL and not is_assignable(self.bindings, t, BOOL):
                self.types[node.id] = ERROR
                self.issues.report(operand.pos, f"expected type 'bool' but found '{t.display_name}'")

    # Literals.

    def optional_content_type(self, node: Node) -> Type:
        """The content type of an optional element or entry."""
        t = self.types[node.id]
        if t.kind is TypeKind.OPAQUE and t.name == "optional_type":
            return t.params[0]
        if not t.dynamic:
            self.issues.report(node.pos, f"expected type '{optional_of(t).display_name}' but found '{t.display_name}'")
        return t

    def common_type(self, previous: Type | None, current: Type) -> Type:
        """The common type of two elements, or dyn (the validators check mixed types later)."""
        if previous is None or previous is current:
            return current
        if is_assignable(self.bindings, previous, current):
            return most_general(previous, current)
        return DYN

    def list_literal(self, node: ListExpr) -> Node:
        element: Type | None = None
        elements = node.elements
        optional = node.optional_indices
        for i, e in enumerate(elements):
            elements[i] = e = self.check(e)
            element = self.common_type(element, self.optional_content_type(e) if i in optional else self.types[e.id])
        self.types[node.id] = list_of(self.fresh_param() if element is None else element)
        return node

    def map_literal(self, node: MapExpr) -> Node:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            entry.key = self.check(entry.key)
            key = self.common_type(key, self.types[entry.key.id])
            entry.value = self.check(entry.value)
            value = self.common_type(
                value, self.optional_content_type(entry.value) if entry.optional else self.types[entry.value.id]
            )
        if key is None or value is None:
            key, value = self.fresh_param(), self.fresh_param()
        self.types[node.id] = map_of(key, value)
        return node

    def message_literal(self, node: StructExpr) -> Node:
        found = self.lookup(node.name)
        if found is None:
            self.types[node.id] = ERROR
            self.report_undeclared(node.pos, node.name)
            return node
        node.name, t, _ = found
        result = ERROR
        fields_of = node.name
        if t.kind is not TypeKind.TYPE:
            self.issues.report(node.pos, f"'{t.name}' is not a type")
        elif (message := self.environment.message_name(t.params[0])) is None:
            self.issues.report(node.pos, f"'{t.params[0].name}' is not a message type")
        else:
            result = t.params[0]
            fields_of = message
        self.types[node.id] = result
        for field in node.fields:
            field.value = self.check(field.value)
            declared = self.struct_field(field.pos, fields_of, field.name) or ERROR
            provided = self.optional_content_type(field.value) if field.optional else self.types[field.value.id]
            if not is_assignable(self.bindings, declared, provided):
                self.issues.report(
                    field.pos,
                    f"expected type of field '{field.name}' is '{declared.display_name}' "
                    f"but provided type is '{provided.display_name}'",
                )
        return node

    # Comprehensions.

    def comprehension(self, node: Comprehension) -> Node:
        node.iter_range = self.check(node.iter_range)
        node.accu_init = self.check(node.accu_init)
        over = substitute(self.bindings, self.types[node.iter_range.id], False)
        accu = self.types[node.accu_init.id]
        first, second = self.iteration_types(node, over)
        self.scopes.append({node.accu_var: accu})
        variables = {node.iter_var: first}
        if node.iter_var2 is not None:
            variables[node.iter_var2] = second
        self.scopes.append(variables)
        node.loop_condition = self.check(node.loop_condition)
        self.expect_type(node.loop_condition, BOOL)
        node.loop_step = self.check(node.loop_step)
        self.expect_type(node.loop_step, accu)
        self.scopes.pop()
        node.result = self.check(node.result)
        self.scopes.pop()
        self.types[node.id] = substitute(self.bindings, self.types[node.result.id], False)
        return node

    def iteration_types(self, node: Comprehension, over: Type) -> tuple[Type, Type]:
        """The types of the iteration variables over a range of this type."""
        two = node.iter_var2 is not None
        match over.kind:
            case TypeKind.LIST:
                element = over.params[0]
                return (INT, element) if two else (element, element)
            case TypeKind.MAP:
                return over.params[0], over.params[1]
            case TypeKind.DYN | TypeKind.ERROR | TypeKind.PARAM:
                is_assignable(self.bindings, DYN, over)
                return DYN, DYN
            case _:
                self.issues.report(
                    node.iter_range.pos,
                    f"expression of type '{over.display_name}' cannot be range of a comprehension "
                    "(must be list, map, or dynamic)",
                )
                return ERROR, ERROR

    def expect_type(self, node: Node, expected: Type) -> None:
        """Reports an error unless a node's type is assignable to the expected one."""
        found = self.types[node.id]
        if found is not expected and not is_assignable(self.bindings, expected, found):
            self.issues.report(node.pos, f"expected type '{expected.display_name}' but found '{found.display_name}'")


# fmt: off
#: The method that checks each class of nodes.
_CHECKS: dict[type, Callable[[_Checker, Any], Node]] = {
    Const: _Checker.const, Ident: _Checker.ident, Select: _Checker.select, Call: _Checker.call,
    ListExpr: _Checker.list_literal, MapExpr: _Checker.map_literal, StructExpr: _Checker.message_literal,
    Comprehension: _Checker.comprehension,
}
# fmt: on

_PARAM_COUNTS: dict[tuple[Overload, ...], int] = {}


def _param_count(overloads: tuple[Overload, ...]) -> int:
    """The number of fresh type parameters that a call of these overloads uses."""
    count = _PARAM_COUNTS.get(overloads)
    if count is None:
        count = _PARAM_COUNTS[overloads] = sum(len(o.type_params) for o in overloads)
    return count


def _qualified(node: Node, roots: frozenset[str] | None) -> str | None:
    """``a.b.c`` for selections from an identifier, which must be in ``roots`` if given; None for other nodes."""
    parts: list[str] = []
    while node.__class__ is Select:
        if node.test_only:
            return None
        parts.append(node.field)
        node = node.operand
    if node.__class__ is not Ident:
        return None
    root: str = node.name
    if roots is not None and root.removeprefix(".") not in roots:
        return None
    if not parts:
        return root
    parts.append(root)
    return ".".join(reversed(parts))
