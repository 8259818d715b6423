"""The static cost estimate of an expression, as admission computes it.

A walk over the typed tree computes costs and sizes. Sizes of literals are exact, sizes of the parts of variables come
from their declarations, sizes of results from the rules in ``call_costs``. Literals are not folded, so an estimate can
be above or below the actual cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from allotment.cel.checking import call_costs, ranges
from allotment.cel.checking.call_costs import CallCost, CostRule, Operand
from allotment.cel.checking.checked_expression import CheckedExpression
from allotment.cel.checking.declared_sizes import DEVICE, DeclaredPath, DeclaredType, variable_path
from allotment.cel.checking.ranges import MAX, ONE, UNKNOWN, ZERO, Range
from allotment.cel.checking.types import Type, TypeKind
from allotment.cel.syntax.ast import Call, Comprehension, Const, Ident, ListExpr, MapExpr, Node, Select, StructExpr

_SCALARS = frozenset(
    {TypeKind.BOOL, TypeKind.DOUBLE, TypeKind.DURATION, TypeKind.INT, TypeKind.TIMESTAMP, TypeKind.UINT}
)
_EMPTY_UNION: Range = (MAX, 0)


class _Entries(NamedTuple):
    """The sizes of the keys and values of a map, or of the indices and elements of a list."""

    is_list: bool
    key: Range
    value: Range

    def union(self, other: _Entries) -> _Entries:
        return _Entries(self.is_list, ranges.union(self.key, other.key), ranges.union(self.value, other.value))


class _LocalVariable(NamedTuple):
    """A variable of a comprehension."""

    path: DeclaredPath | None
    size: Range | None
    entries: _Entries | None


def estimate(checked: CheckedExpression, part: Node | None = None, root: DeclaredType | None = None) -> Range:
    """The minimum and maximum expected cost of an evaluation, in cost units; saturates at 2^64-1.

    ``part`` limits the estimate to a subexpression, which must not be inside a comprehension. ``root``: the declared
    type of all variables; None for expressions on a device.
    """
    return _Estimator(checked, root).cost(checked.expr if part is None else part)


class _Estimator:
    """The state of one estimate; sizes, entries and paths are keyed by node id."""

    __slots__ = ("root", "types", "overloads", "newer_rules", "local_variables", "paths", "sizes", "entries")

    def __init__(self, checked: CheckedExpression, root: DeclaredType | None) -> None:
        self.root = root
        self.types = checked.types
        self.overloads = checked.overloads
        is_newer = checked.environment.cel_go >= (0, 29)
        self.newer_rules: Mapping[str, CostRule] = call_costs.BY_OVERLOAD_SINCE_0_29 if is_newer else {}
        self.local_variables: dict[str, list[_LocalVariable]] = {}
        self.paths: dict[int, DeclaredPath | None] = {}
        self.sizes: dict[int, Range] = {}
        self.entries: dict[int, _Entries] = {}

    def cost(self, node: Node) -> Range:
        """The cost of a node and everything below it; also records the sizes of nodes."""
        match node:
            case Const():
                return ZERO
            case Ident():
                local = self.local_variable(node.name)
                if local is not None:
                    self.paths[node.id] = local.path
                else:
                    self.paths[node.id] = self.child(None, node.name)
                return ONE
            case Select():
                return self.select(node)
            case Call():
                return self.call(node)
            case ListExpr():
                return self.list_literal(node)
            case MapExpr():
                return self.map_literal(node)
            case StructExpr():
                total = ranges.fixed(call_costs.MESSAGE)
                for field in node.fields:
                    total = ranges.add(total, self.cost(field.value))
                return total
            case Comprehension():
                return self.bind(node) if _is_bind(node) else self.fold(node)

    # Sizes and paths of nodes.

    def local_variable(self, name: str) -> _LocalVariable | None:
        """The innermost variable of that name."""
        stack = self.local_variables.get(name)
        return stack[-1] if stack else None

    def size(self, node: Node) -> Range | None:
        """The size of a node's value from, in this order: call results, literals, declarations, types, variables."""
        known = self.sizes.get(node.id)
        if known is not None:
            return known
        match node:
            case Const():
                return ranges.fixed(len(node.value) if isinstance(node.value, str | bytes) else 1)
            case ListExpr():
                return ranges.fixed(len(node.elements))
            case MapExpr():
                return ranges.fixed(len(node.entries))
        declared = self.declared_type(node)
        if declared is not None:
            self.sizes[node.id] = found = (0, declared.max_size)
            return found
        if _is_scalar(self.types[node.id]):
            return ONE
        if isinstance(node, Ident):
            local = self.local_variable(node.name)
            if local is not None:
                return local.size
        return None

    def path(self, node: Node) -> DeclaredPath | None:
        """The path of a node's value from its variable, if it has one."""
        if isinstance(node, Ident):
            local = self.local_variable(node.name)
            if local is not None:
                return local.path
        return self.paths.get(node.id)

    def child(self, path: DeclaredPath | None, name: str) -> DeclaredPath | None:
        """The path of a part of a value. Upstream treats parts of values without a path as variables."""
        if path is not None:
            return path.child(name)
        if self.root is not None:
            return variable_path(self.root, name)
        return variable_path(DEVICE, name) if name == "device" else None

    def declared_type(self, node: Node) -> DeclaredType | None:
        """The declared type of a node's value, if it has a path."""
        path = self.path(node)
        return None if path is None else path.declared_type()

    def size_or_unknown(self, node: Node) -> Range:
        size = self.size(node)
        return UNKNOWN if size is None else size

    def entries_of(self, node: Node) -> _Entries | None:
        """The sizes of the entries of a list or map, if known."""
        known = self.entries.get(node.id)
        if known is None and isinstance(node, Ident):
            local = self.local_variable(node.name)
            if local is not None:
                return local.entries
        return known

    def operand_of(self, node: Node) -> Operand:
        return Operand(node, self.types[node.id], self.size(node), self.declared_type(node))

    # Nodes.

    def select(self, node: Select) -> Range:
        cost = self.cost(node.operand)
        if node.test_only:
            return cost
        if self.types[node.operand.id].kind in (TypeKind.MAP, TypeKind.STRUCT, TypeKind.PARAM):
            cost = ranges.add(cost, ONE)
        path = self.path(node.operand)
        self.paths[node.id] = self.child(path, node.field)
        return cost

    def list_literal(self, node: ListExpr) -> Range:
        total = ranges.fixed(call_costs.LIST)
        element = _EMPTY_UNION if node.elements else ZERO
        for e in node.elements:
            total = ranges.add(total, self.cost(e))
            element = ranges.union(element, self.size_or_unknown(e))
        self.entries[node.id] = _Entries(True, ONE, element)
        return total

    def map_literal(self, node: MapExpr) -> Range:
        total = ranges.fixed(call_costs.MAP)
        key = value = _EMPTY_UNION if node.entries else ZERO
        for entry in node.entries:
            total = ranges.add(total, ranges.add(self.cost(entry.key), self.cost(entry.value)))
            key = ranges.union(key, self.size_or_unknown(entry.key))
            value = ranges.union(value, self.size_or_unknown(entry.value))
        self.entries[node.id] = _Entries(False, key, value)
        return total

    # Calls.

    def call(self, node: Call) -> Range:
        function = node.function
        if function == "dyn":
            # The value keeps its size; only its type changes.
            value = self.cost(node.args[0])
            self.copy_sizes(node, node.args[0])
            return ranges.add(ONE, value)
        args: list[Operand] = []
        arg_costs: list[Range] = []
        for arg in node.args:
            arg_costs.append(self.cost(arg))
            args.append(self.operand_of(arg))
        total = ZERO
        target: Operand | None = None
        if node.target is not None:
            total = self.cost(node.target)
            target = self.operand_of(node.target)
        cost: Range = _EMPTY_UNION
        result: Range | None = None
        for overload in self.overloads[node.id]:
            own = self.overload_cost(node, overload, target, args, arg_costs)
            cost = ranges.union(cost, own.cost)
            if own.result_size is not None:
                result = own.result_size if result is None else ranges.union(result, own.result_size)
            if overload == "index_list" or overload == "index_map":
                entries = self.entries_of(node.args[0])
                result = None if entries is None else entries.value
                path = self.path(node.args[0])
                self.paths[node.id] = self.child(path, "@items" if overload == "index_list" else "@values")
            if result is None:
                result = self.size(node)
        if result is not None:
            self.sizes[node.id] = result
        return ranges.add(total, cost)

    def overload_cost(
        self, node: Call, overload: str, target: Operand | None, args: list[Operand], arg_costs: list[Range]
    ) -> CallCost:
        """The cost of one overload including its arguments."""
        if overload == "logical_and" or overload == "logical_or":
            # The minimum is the case in which the left operand decides.
            return CallCost((arg_costs[0][0], ranges.add(arg_costs[0], arg_costs[1])[1]))
        if overload == "conditional":
            return self.conditional(node, args, arg_costs)
        own: CallCost | None = None
        for rules, key in (
            (call_costs.BY_OVERLOAD_FIRST, overload),
            (call_costs.BY_FUNCTION, node.function),
            (call_costs.BY_OVERLOAD, overload),
            (self.newer_rules, overload),
        ):
            rule = rules.get(key)
            if rule is not None and (own := rule(overload, target, args)) is not None:
                break
        if own is None:
            own = self.concatenation(node, overload, args) or CallCost(ONE)
        cost = own.cost
        for arg_cost in arg_costs:
            cost = ranges.add(cost, arg_cost)
        return CallCost(cost, own.result_size)

    def conditional(self, node: Call, args: list[Operand], arg_costs: list[Range]) -> CallCost:
        left, right = self.entries_of(node.args[1]), self.entries_of(node.args[2])
        if left is not None and right is not None:
            self.entries[node.id] = left.union(right)
        cost = ranges.add(arg_costs[0], ranges.union(arg_costs[1], arg_costs[2]))
        return CallCost(cost, ranges.union(args[1].size, args[2].size))

    def concatenation(self, node: Call, overload: str, args: list[Operand]) -> CallCost | None:
        """``+`` on lists, strings and bytes; concatenating lists does not copy them."""
        if overload not in ("add_list", "add_string", "add_bytes"):
            return None
        size = ranges.add(args[0].size, args[1].size)
        left, right = self.entries_of(node.args[0]), self.entries_of(node.args[1])
        if left is not None and right is not None:
            self.entries[node.id] = left.union(right)
        return CallCost(ONE if overload == "add_list" else ranges.scale(size, call_costs.TRAVERSAL), size)

    def copy_sizes(self, node: Node, source: Node) -> None:
        """Copies the sizes of ``source`` to a node with the same value."""
        size = self.size(source)
        if size is not None:
            self.sizes[node.id] = size
        entries = self.entries_of(source)
        if entries is not None:
            self.entries[node.id] = entries

    # Comprehensions.

    def push(self, name: str, local: _LocalVariable) -> None:
        self.local_variables.setdefault(name, []).append(local)

    def bind(self, node: Comprehension) -> Range:
        """``cel.bind``: charged for exactly one computation of the variable."""
        total = ranges.add(self.cost(node.iter_range), self.cost(node.accu_init))
        self.push(node.accu_var, self.variable(node.accu_init))
        total = ranges.add(total, self.cost(node.result))
        self.local_variables[node.accu_var].pop()
        self.copy_sizes(node, node.result)
        return total

    def variable(self, value: Node) -> _LocalVariable:
        """A variable with a node's value."""
        return _LocalVariable(self.path(value), self.size(value), self.entries_of(value))

    def fold(self, node: Comprehension) -> Range:
        over = node.iter_range
        total = ranges.add(self.cost(over), self.cost(node.accu_init))
        self.push(node.accu_var, self.variable(node.accu_init))
        entries = self.entries_of(over)
        is_list = entries.is_list if entries is not None else self.types[over.id].kind is TypeKind.LIST
        key = None if entries is None else entries.key
        value = None if entries is None else entries.value
        path = self.path(over)
        if node.iter_var2 is not None:
            keys, values = ("@indices", "@items") if is_list else ("@keys", "@values")
            self.push(node.iter_var, _LocalVariable(self.child(path, keys), key, None))
            self.push(node.iter_var2, _LocalVariable(self.child(path, values), value, None))
        elif is_list:
            self.push(node.iter_var, _LocalVariable(self.child(path, "@items"), value, None))
        else:
            self.push(node.iter_var, _LocalVariable(self.child(path, "@keys"), key, None))
        each = self.cost(node.loop_condition)
        each = ranges.add(self.cost(node.loop_step), each)
        self.local_variables[node.iter_var].pop()
        if node.iter_var2 is not None:
            self.local_variables[node.iter_var2].pop()
        total = ranges.add(total, self.cost(node.result))
        self.local_variables[node.accu_var].pop()
        count = self.size_or_unknown(over)
        total = ranges.add(total, ranges.multiply(count, each))
        init = node.accu_init
        if isinstance(init, Const):
            size = self.size(init)
            if size is not None:
                self.sizes[node.id] = size
        elif isinstance(init, ListExpr | MapExpr):
            self.sizes[node.id] = count
            step = self.entries_of(node.loop_step)
            if step is not None:
                self.entries[node.id] = step
        return total


def _is_bind(node: Comprehension) -> bool:
    condition = node.loop_condition
    return (
        isinstance(node.iter_range, ListExpr)
        and not node.iter_range.elements
        and isinstance(condition, Const)
        and condition.value is False
        and node.accu_var != "__result__"
    )


def _is_scalar(t: Type) -> bool:
    """Whether every value of a type has size 1; an optional has the size of its content."""
    while t.kind is TypeKind.OPAQUE and t.name == "optional_type":
        t = t.params[0]
    return t.kind in _SCALARS
