"""From a checked tree to Python closures that evaluate it.

What upstream decides when it plans is decided here too, because costs and errors show it: conversions of constants and
literals of constants are computed (a failing one does not compile), membership in a constant list becomes a set
lookup, constant patterns are compiled. On top of that, calls that only parse a literal (``quantity("1Gi")``) are made
once and charged every time, and common shapes get closures of their own; ``fuse=False`` leaves that out, and every
charge is then made at the very step at which upstream makes it (see `CountingFrame`). One rule per kind of node, all of
them on the same state, so they stay in one file.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from allotment.cel.checking.checked_expression import Checked
from allotment.cel.checking.environment import TYPE_NAMES
from allotment.cel.checking.types import Kind
from allotment.cel.evaluation import aggregate_literals, calls, comprehensions, cost, logic, paths, specializations
from allotment.cel.evaluation.bindings import PlanError as PlanError
from allotment.cel.evaluation.bindings import implementation
from allotment.cel.evaluation.equality import equal
from allotment.cel.evaluation.library import conversions, strings
from allotment.cel.evaluation.paths import Branches, Path, Selection
from allotment.cel.evaluation.specializations import membership
from allotment.cel.evaluation.steps import DEVICE, FIRST_SLOT, Constant, Frame, Run, Static, Step
from allotment.cel.evaluation.values import ABSENT, Failure, Optional, TypeValue, Uint, Value
from allotment.cel.regex import RegexError
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Comprehension, Const, Ident, ListExpr, MapExpr, Node, Select, StructExpr
from allotment.model.quantity import Quantity


class Plan:
    """A planned expression. ``variables`` are the names, in the order of their frame slots, that it may use beside
    ``device``; ``slots`` is the number of frame entries behind them."""

    __slots__ = ("run", "slots", "variables")

    def __init__(self, run: Run, variables: tuple[str, ...], slots: int) -> None:
        self.run = run
        self.variables = variables
        self.slots = slots


def plan(checked: Checked, node: Node | None = None, *, variables: Sequence[str] = (), fuse: bool = True) -> Plan:
    """Plan an expression, or the part of it at ``node``. Raises PlanError."""
    planner = _Planner(checked, tuple(variables), fuse)
    step = planner.plan(checked.expr if node is None else node)
    return Plan(step.run, planner.globals, planner.next_slot - FIRST_SLOT - len(planner.globals))


class QuantityComparison(Step):
    """``value.compareTo(quantity("1Gi"))``, open for being fused with the comparison around it."""

    __slots__ = ("charge", "first", "wanted")

    def __init__(self, run: Run, first: Run, wanted: Quantity, charge: int) -> None:
        super().__init__(run)
        self.first = first
        self.wanted = wanted
        self.charge = charge


#: Calls on literals that can be made when the selector is compiled: they are pure and small.
_PARSERS: Final = frozenset(
    {"quantity", "isQuantity", "semver", "isSemver", "ip", "isIP", "ip.isCanonical", "cidr", "isCIDR", "url", "isURL"}
)
_PATTERNED: Final = frozenset({"matches", "find", "findAll"})
# fmt: off
#: Functions that traverse their arguments for less than a charge of one for each element.
_TRAVERSING: Final = frozenset(
    {
        "isSorted", "sum", "min", "max", "indexOf", "lastIndexOf", "join", "format", "distinct", "sort", "includes",
        ast.SORT_BY_KEYS, "flatten", "sets.contains", "sets.intersects", "sets.equivalent", "unwrapOpt", "reverse",
        "optional.unwrap", "slice", ast.IN,
    }
)
# fmt: on
_PRINTING: Final = frozenset({"format", "replace", "join"})
_MAY_HOLD_MORE: Final = frozenset({Kind.LIST, Kind.MAP, Kind.DYN, Kind.ANY, Kind.PARAM, Kind.OPAQUE, Kind.ERROR})


class _Planner:
    def __init__(self, checked: Checked, variables: tuple[str, ...], fuse: bool) -> None:
        self.checked = checked
        self.functions = checked.environment.functions
        self.unchecked = not checked.types
        self.fuse = fuse
        self.globals = variables
        self.next_slot = FIRST_SLOT + len(variables)
        self.scopes: list[dict[str, tuple[int, Run | None]]] = [
            {name: (FIRST_SLOT + i, None) for i, name in enumerate(variables)}
        ]

    def plan(self, node: Node) -> Step:
        """The step of a node."""
        return _PLANNERS[type(node)](self, node)

    def slot(self) -> int:
        """A new variable's place in the frame. Places are not shared: a lazy binding may run anywhere."""
        self.next_slot += 1
        return self.next_slot - 1

    # --- leaves --------------------------------------------------------------------------------------------------

    def const(self, node: Const) -> Step:
        return Constant(Uint(node.value) if node.kind == "uint" and isinstance(node.value, int) else node.value)

    def ident(self, node: Ident) -> Step:
        type_name = self.checked.type_names.get(node.id)
        if type_name is not None:
            return _type(type_name)
        if self.unchecked:
            return self.unresolved(node.name)
        return self.variable(node.id, node.name) or _missing(node.name)

    def variable(self, node_id: int, name: str) -> Path | None:
        """A variable in scope as the start of a path."""
        for scope in reversed(self.scopes):
            if name in scope:
                slot, compute = scope[name]
                static = self.checked.types.get(node_id)
                plain = static is not None and static.kind not in _MAY_HOLD_MORE
                root = _read(slot) if compute is None else comprehensions.bound_variable(slot, compute)
                return Path(root, plain_root=plain, fuse=self.fuse)
        if name == "device" and "device" in self.checked.environment.variables:
            return Path(lambda frame: frame[DEVICE].whole(), is_device=True, fuse=self.fuse)
        return None

    def unresolved(self, name: str) -> Step:
        """A name in an expression that has not been checked."""
        environment = self.checked.environment
        for full in environment.candidates(name):
            found = self.variable(-1, full)
            if found is not None:
                return found
            if full in environment.type_names:
                return Constant(TypeValue(full))
        return _missing(", ".join(environment.candidates(name)))

    # --- paths ---------------------------------------------------------------------------------------------------

    def select(self, node: Select) -> Step:
        type_name = self.checked.type_names.get(node.id)
        if type_name is not None:
            return _type(type_name)
        if self.unchecked and not node.test_only:
            dotted = _dotted(node)
            if dotted is not None:
                for full in self.checked.environment.candidates(dotted):
                    found = self.variable(node.id, full)
                    if found is not None:
                        return found
        return self.path(self.plan(node.operand)).extended(Selection(node.field, test=node.test_only))

    def path(self, step: Step) -> Path | Branches:
        """A step as something that can be selected from."""
        return step if isinstance(step, Path | Branches) else Path(step.run, fuse=self.fuse)

    def index(self, node: Call, optional: bool) -> Step:
        base, key = (self.plan(argument) for argument in node.args)
        if isinstance(key, Constant):
            try:
                paths.check_key(key.value)
            except Failure as failure:
                raise PlanError(str(failure)) from None
            selection = Selection(key.value, optional=optional)
        elif isinstance(key, Path | Branches):
            resolve = key.resolve
            selection = Selection(ABSENT, lambda frame: paths.rewrapped(resolve(frame)), optional)
        else:
            run = key.run
            selection = Selection(ABSENT, lambda frame: paths.rewrapped(run(frame)), optional)
        return self.path(base).extended(selection)

    def conditional(self, node: Call) -> Step:
        condition, truthy, falsy = (self.plan(argument) for argument in node.args)
        return Branches(condition.run, self.branch(truthy), self.branch(falsy))

    def branch(self, step: Step) -> Path | Branches:
        """A branch of ``?:``. What is no path by itself becomes one without selections."""
        if isinstance(step, Path | Branches):
            return step
        return Path(step.run, plain_root=isinstance(step, Constant), fuse=self.fuse)

    # --- literals ------------------------------------------------------------------------------------------------

    def list_literal(self, node: ListExpr) -> Step:
        steps = [self.plan(element) for element in node.elements]
        optional = frozenset(node.optional_indices)
        run = aggregate_literals.list_literal(steps, optional)
        if all(isinstance(step, Constant) for step in steps):
            return self.folded(run)
        return Step(run)

    def map_literal(self, node: MapExpr) -> Step:
        entries = [(self.plan(e.key), self.plan(e.value), e.optional) for e in node.entries]
        run = aggregate_literals.map_literal(entries)
        if all(isinstance(key, Constant) and isinstance(value, Constant) for key, value, _ in entries):
            return self.folded(run)
        return Step(run)

    def folded(self, run: Run) -> Constant:
        """The value of constants; what it would have cost is not charged."""
        try:
            return Constant(run([0, 0, 0, None]))
        except Failure as failure:
            raise PlanError(str(failure)) from None

    def message(self, node: StructExpr) -> Step:
        fields = [(field.name, self.plan(field.value).run, field.optional) for field in node.fields]
        return Step(aggregate_literals.message(node.name.removeprefix("."), fields))

    # --- logic ---------------------------------------------------------------------------------------------------

    def chain(self, node: Call, function: str) -> list[Run]:
        """The operands of nested ``&&`` or ``||``: the balanced tree and the flat chain decide alike."""
        terms: list[Run] = []
        stack: list[Node] = [node]
        while stack:
            term = stack.pop()
            if isinstance(term, Call) and term.function == function:
                stack.extend(reversed(term.args))
            else:
                terms.append(self.plan(term).run)
        return terms

    # --- calls ---------------------------------------------------------------------------------------------------

    def call(self, node: Call) -> Step:
        function = node.function
        special = _SPECIAL.get(function)
        if special is not None:
            return special(self, node)
        arguments = list(node.args)
        ids = self.checked.overloads.get(node.id, ())
        if node.target is not None:
            dotted = _dotted(node.target) if self.unchecked else None
            if dotted is not None and f"{dotted}.{function}" in self.functions:
                function = f"{dotted}.{function}"
            else:
                arguments.insert(0, node.target)
        overload = ids[0] if len(ids) == 1 else ""
        if function in ("or", "orValue") and len(arguments) == 2:
            return self.alternative(function, arguments)
        steps = [self.plan(argument) for argument in arguments]
        if function == ast.IN and overload == "in_list" and isinstance(steps[1], Constant):
            found = membership(steps[0].run, steps[1].value)
            if found is not None:
                return Constant(False) if found is ABSENT else Step(found)
        return self.invocation(node, function, overload, steps)

    def alternative(self, function: str, arguments: Sequence[Node]) -> Step:
        first, second = (self.plan(argument).run for argument in arguments)
        whole = function == "or"

        def run(frame: Frame) -> Value:
            value = first(frame)
            if type(value) is not Optional:
                return value
            if value.value is ABSENT:
                return second(frame)
            if whole:
                return value
            if isinstance(value.value, Failure):
                raise value.value
            return value.value

        return Step(run)

    def invocation(self, node: Call, function: str, overload: str, steps: list[Step]) -> Step:
        run_by, sequential = implementation(
            self.functions, function, overload, len(steps), node.id, checked=not self.unchecked
        )
        if function in _PATTERNED and len(steps) > 1 and isinstance(steps[1], Constant) and type(steps[1].value) is str:
            try:
                run_by = strings.constant_pattern(function, steps[1].value)
            except RegexError as error:
                raise PlanError(str(error)) from None
            sequential = True
        charge = cost.call(function, overload)
        if function in conversions.FOLDED and len(steps) == 1 and isinstance(steps[0], Constant):
            return self.folded(calls.call_unary(run_by, steps[0], 0))
        if self.fuse and function in _PARSERS and all(isinstance(step, Constant) for step in steps):
            static = _static(run_by, [step.value for step in steps if isinstance(step, Constant)], charge)
            if static is not None:
                return static
        if function in _TRAVERSING:
            steps = [calls.metered(step) for step in steps]
        run = self.closure(function, run_by, sequential, steps, charge)
        wanted = steps[1].value if self.fuse and len(steps) == 2 and isinstance(steps[1], Constant | Static) else None
        if overload == "quantity_compare_to" and isinstance(wanted, Quantity):
            before = steps[1].cost if isinstance(steps[1], Static) else 0
            return QuantityComparison(run, steps[0].run, wanted, before + 1)
        return Step(calls.metered_result(run) if function in _PRINTING else run)

    def closure(
        self,
        function: str,
        run_by: calls.Implementation,
        sequential: bool,
        steps: list[Step],
        charge: cost.CostOf | int,
    ) -> Run:
        if not steps:
            return calls.call_nullary(run_by, charge)
        if sequential or len(steps) > 2:
            return calls.call_sequence(run_by, steps, charge)
        if len(steps) == 1:
            return calls.call_unary(run_by, steps[0], charge)
        fast = _INTEGER_ORDER.get(function)
        if self.fuse and fast is not None and isinstance(steps[1], Constant) and type(steps[1].value) is int:
            number = steps[1].value
            if isinstance(steps[0], QuantityComparison) and isinstance(charge, int):
                compared = steps[0]
                return specializations.compare_quantity(
                    compared.first, fast, compared.wanted, number, compared.charge + charge
                )
            if isinstance(charge, int):
                return specializations.order_with_int(steps[0].run, fast, run_by, number, charge)
        return calls.call_binary(run_by, steps[0], steps[1], charge)

    # --- equality ------------------------------------------------------------------------------------------------

    def equals(self, node: Call) -> Step:
        left, right = (self.plan(argument) for argument in node.args)
        if self.fuse and isinstance(right, Constant):
            run = _equals_literal(left, right.value, node.function == ast.EQUALS)
            if run is not None:
                return Step(run)
        if any(self.may_be_deep(argument) for argument in node.args):
            left, right = calls.metered(left), calls.metered(right)
        if node.function == ast.EQUALS:
            return Step(calls.call_binary(equal, left, right, lambda values, _: cost.equality(*values)))
        return Step(calls.call_binary(specializations.differ, left, right, lambda values, _: cost.inequality(*values)))

    def may_be_deep(self, node: Node) -> bool:
        static = self.checked.types.get(node.id)
        return static is None or static.kind in _MAY_HOLD_MORE

    # --- comprehensions ------------------------------------------------------------------------------------------

    def comprehension(self, node: Comprehension) -> Step:
        if isinstance(node.loop_condition, Const) and node.loop_condition.value is False:
            return self.bind(node)
        over = self.plan(node.iter_range).run
        slot = self.slot()
        slot2 = None if node.iter_var2 is None else self.slot()
        scope: dict[str, tuple[int, Run | None]] = {node.iter_var: (slot, None)}
        if node.iter_var2 is not None and slot2 is not None:
            scope[node.iter_var2] = (slot2, None)
        self.scopes.append(scope)
        try:
            return Step(self.fold(node, over, slot, slot2))
        finally:
            self.scopes.pop()

    def bind(self, node: Comprehension) -> Step:
        slot = self.slot()
        compute = self.plan(node.accu_init).run
        self.scopes.append({node.accu_var: (slot, compute)})
        try:
            # Never run, but upstream plans it, and complains about a variable that holds a type.
            self.plan(node.loop_step)
            return Step(comprehensions.bind(slot, self.plan(node.result).run))
        finally:
            self.scopes.pop()

    def fold(self, node: Comprehension, over: Run, slot: int, slot2: int | None) -> Run:
        step = node.loop_step
        assert isinstance(step, Call)
        if step.function in (ast.AND, ast.OR):
            predicate = self.plan(step.args[1]).run
            return comprehensions.quantifier(over, slot, slot2, predicate, every=step.function == ast.AND)
        keep: Run | None = None
        if step.function == ast.CONDITIONAL:
            keep = self.plan(step.args[0]).run
            taken = step.args[1]
            assert isinstance(taken, Call)
            step = taken
            if isinstance(step.args[1], Const):  # accumulator + 1
                return comprehensions.one(over, slot, slot2, keep)
        if step.function == ast.ADD:
            literal = step.args[1]
            assert isinstance(literal, ListExpr)
            element = self.plan(literal.elements[0])
            return comprehensions.build(over, slot, slot2, keep, self.append(element), mapping=False)
        if len(step.args) == 3:
            accumulate = comprehensions.insert_entry(slot, self.plan(step.args[2]).run)
        else:
            accumulate = comprehensions.insert_entries(self.plan(step.args[1]).run)
        return comprehensions.build(over, slot, slot2, keep, accumulate, mapping=True)

    def append(self, element: Step) -> comprehensions.Accumulate:
        # A list literal of a constant is folded, and then costs nothing.
        return comprehensions.append(element.run, 0 if isinstance(element, Constant) else cost.LIST)


# --- closures ----------------------------------------------------------------------------------------------------


def _type(name: str) -> Constant:
    if name not in TYPE_NAMES:
        raise PlanError(f"reference to undefined type: {name}")
    return Constant(TypeValue(name))


def _read(slot: int) -> Run:
    return lambda frame: frame[slot]


def _missing(name: str) -> Path:
    def run(frame: Frame) -> Value:
        raise Failure(f"no such attribute(s): {name}")

    return Path(run)


def _dotted(node: Node) -> str | None:
    """The name that selections from an identifier spell."""
    fields: list[str] = []
    while isinstance(node, Select) and not node.test_only:
        fields.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join((node.name, *reversed(fields)))


def _and(self: _Planner, node: Call) -> Step:
    return Step(logic.chain(tuple(self.chain(node, ast.AND)), False))


def _or(self: _Planner, node: Call) -> Step:
    return Step(logic.chain(tuple(self.chain(node, ast.OR)), True))


def _not(self: _Planner, node: Call) -> Step:
    return Step(calls.call_unary(logic.negated, self.plan(node.args[0]), 1))


_INTEGER_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ast.LESS: operator.lt, ast.LESS_EQUALS: operator.le, ast.GREATER: operator.gt, ast.GREATER_EQUALS: operator.ge,
}  # fmt: skip


def _equals_literal(left: Step, literal: Value, wanted: bool) -> Run | None:
    """A closure for ``left == literal``, None when there is no special one."""
    kind = type(literal)
    if kind is str:
        keys = left.device_keys if isinstance(left, Path) else None
        if keys == ("driver",):
            return specializations.driver_equals(literal, wanted)
        if keys is not None and len(keys) == 3 and keys[0] == "attributes":
            return specializations.attribute_equals_text(keys[1], keys[2], literal, wanted)
        return specializations.equals_text(left.run, literal, wanted)
    if kind is int or kind is bool:
        return specializations.equals_scalar(left.run, literal, wanted)
    return None


def _static(implementation: calls.Implementation, values: list[Value], charge: cost.CostOf | int) -> Static | None:
    """A call made now, None when it fails: failures are made when they happen."""
    try:
        value = implementation(*values)
    except Failure:
        return None
    return Static(value, charge if isinstance(charge, int) else charge(values, value))


_PLANNERS: Final[dict[type, Callable[[_Planner, Any], Step]]] = {
    Const: _Planner.const, Ident: _Planner.ident, Select: _Planner.select, Call: _Planner.call,
    ListExpr: _Planner.list_literal,
    MapExpr: _Planner.map_literal, StructExpr: _Planner.message, Comprehension: _Planner.comprehension,
}  # fmt: skip

_SPECIAL: Final[dict[str, Callable[[_Planner, Call], Step]]] = {
    ast.AND: _and, ast.OR: _or, ast.NOT: _not, ast.EQUALS: _Planner.equals, ast.NOT_EQUALS: _Planner.equals,
    ast.CONDITIONAL: _Planner.conditional,
    ast.INDEX: lambda planner, node: planner.index(node, False),
    ast.OPT_INDEX: lambda planner, node: planner.index(node, True),
    ast.OPT_SELECT: lambda planner, node: planner.index(node, True),
}  # fmt: skip
