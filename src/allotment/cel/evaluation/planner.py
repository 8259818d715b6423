"""The planner: turns a checked tree into Python closures that evaluate it.

It does the optimizations of upstream's planner, because they are visible in costs and errors: conversions of constants
and literals of constants are computed (an error is a compile error), membership in a constant list becomes a set
lookup, constant patterns are compiled. In addition, calls that only parse a literal (``quantity("1Gi")``) are made once
and charged every time, and common shapes get fused closures. With ``fuse=False`` every charge is made at the same step
as upstream (see `CountingFrame`). The rules, one per kind of node, share their state, so they are in one file.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from allotment.cel.checking.checked_expression import CheckedExpression
from allotment.cel.checking.environment import TYPE_NAMES
from allotment.cel.checking.types import TypeKind
from allotment.cel.evaluation import aggregate_literals, calls, comprehensions, cost, logic, paths, specializations
from allotment.cel.evaluation.bindings import PlanError as PlanError
from allotment.cel.evaluation.bindings import resolve_implementation
from allotment.cel.evaluation.equality import equal
from allotment.cel.evaluation.library import conversions, strings
from allotment.cel.evaluation.paths import ConditionalPath, Qualifier, SelectionPath
from allotment.cel.evaluation.specializations import membership
from allotment.cel.evaluation.steps import DEVICE, FIRST_SLOT, Constant, Frame, PlanStep, PrecomputedCall, Run
from allotment.cel.evaluation.values import ABSENT, CelError, Optional, TypeValue, Uint, Value
from allotment.cel.regex import RegexError
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Comprehension, Const, Ident, ListExpr, MapExpr, Node, Select, StructExpr
from allotment.model.quantity import Quantity


class ExpressionPlan:
    """A planned expression. ``variables`` are the names, in the order of their frame slots, that it can use in addition
    to ``device``; ``slots`` is the number of frame entries after them."""

    __slots__ = ("run", "slots", "variables")

    def __init__(self, run: Run, variables: tuple[str, ...], slots: int) -> None:
        self.run = run
        self.variables = variables
        self.slots = slots


def plan(
    checked: CheckedExpression, node: Node | None = None, *, variables: Sequence[str] = (), fuse: bool = True
) -> ExpressionPlan:
    """Plans an expression, or its subexpression ``node``. Raises PlanError."""
    planner = _Planner(checked, tuple(variables), fuse)
    step = planner.plan(checked.expr if node is None else node)
    return ExpressionPlan(step.run, planner.globals, planner.next_slot - FIRST_SLOT - len(planner.globals))


class QuantityComparison(PlanStep):
    """``value.compareTo(quantity("1Gi"))``, which can be fused with the enclosing comparison."""

    __slots__ = ("charge", "expected", "value_run")

    def __init__(self, run: Run, value_run: Run, expected: Quantity, charge: int) -> None:
        super().__init__(run)
        self.value_run = value_run
        self.expected = expected
        self.charge = charge


#: Functions that are pure and cheap: their calls on literals are made at compile time.
_PARSING_FUNCTIONS: Final = frozenset(
    {"quantity", "isQuantity", "semver", "isSemver", "ip", "isIP", "ip.isCanonical", "cidr", "isCIDR", "url", "isURL"}
)
_PATTERN_FUNCTIONS: Final = frozenset({"matches", "find", "findAll"})
# fmt: off
#: Functions that traverse their arguments for a cost of less than one per element.
_TRAVERSING_FUNCTIONS: Final = frozenset(
    {
        "isSorted", "sum", "min", "max", "indexOf", "lastIndexOf", "join", "format", "distinct", "sort", "includes",
        ast.SORT_BY_KEYS, "flatten", "sets.contains", "sets.intersects", "sets.equivalent", "unwrapOpt", "reverse",
        "optional.unwrap", "slice", ast.IN,
    }
)
# fmt: on
_PRINTING_FUNCTIONS: Final = frozenset({"format", "replace", "join"})
_NESTED_KINDS: Final = frozenset(
    {TypeKind.LIST, TypeKind.MAP, TypeKind.DYN, TypeKind.ANY, TypeKind.PARAM, TypeKind.OPAQUE, TypeKind.ERROR}
)


class _Planner:
    def __init__(self, checked: CheckedExpression, variables: tuple[str, ...], fuse: bool) -> None:
        self.checked = checked
        self.functions = checked.environment.functions
        self.unchecked = not checked.types
        self.fuse = fuse
        self.globals = variables
        self.next_slot = FIRST_SLOT + len(variables)
        self.scopes: list[dict[str, tuple[int, Run | None]]] = [
            {name: (FIRST_SLOT + i, None) for i, name in enumerate(variables)}
        ]

    def plan(self, node: Node) -> PlanStep:
        return _PLANNERS[type(node)](self, node)

    def allocate_slot(self) -> int:
        """Allocates a frame slot for a variable. Slots are not reused: a lazy binding can run anywhere."""
        self.next_slot += 1
        return self.next_slot - 1

    # --- leaves --------------------------------------------------------------------------------------------------

    def const(self, node: Const) -> PlanStep:
        return Constant(Uint(node.value) if node.kind == "uint" and isinstance(node.value, int) else node.value)

    def ident(self, node: Ident) -> PlanStep:
        type_name = self.checked.type_names.get(node.id)
        if type_name is not None:
            return _type_constant(type_name)
        if self.unchecked:
            return self.unchecked_name(node.name)
        return self.variable(node.id, node.name) or _missing_variable(node.name)

    def variable(self, node_id: int, name: str) -> SelectionPath | None:
        """The path of a variable in scope; None if there is none."""
        for scope in reversed(self.scopes):
            if name in scope:
                slot, compute = scope[name]
                static = self.checked.types.get(node_id)
                plain = static is not None and static.kind not in _NESTED_KINDS
                root = _read_slot(slot) if compute is None else comprehensions.bound_variable(slot, compute)
                return SelectionPath(root, plain_root=plain, fuse=self.fuse)
        if name == "device" and "device" in self.checked.environment.variables:
            return SelectionPath(lambda frame: frame[DEVICE].as_map(), is_device=True, fuse=self.fuse)
        return None

    def unchecked_name(self, name: str) -> PlanStep:
        """A name in an unchecked expression."""
        environment = self.checked.environment
        for full in environment.candidate_names(name):
            found = self.variable(-1, full)
            if found is not None:
                return found
            if full in environment.type_names:
                return Constant(TypeValue(full))
        return _missing_variable(", ".join(environment.candidate_names(name)))

    # --- paths ---------------------------------------------------------------------------------------------------

    def select(self, node: Select) -> PlanStep:
        type_name = self.checked.type_names.get(node.id)
        if type_name is not None:
            return _type_constant(type_name)
        if self.unchecked and not node.test_only:
            dotted = _dotted(node)
            if dotted is not None:
                for full in self.checked.environment.candidate_names(dotted):
                    found = self.variable(node.id, full)
                    if found is not None:
                        return found
        return self.as_path(self.plan(node.operand)).extended(Qualifier(node.field, test_only=node.test_only))

    def as_path(self, step: PlanStep) -> SelectionPath | ConditionalPath:
        """A step as a path, to which selections can be added."""
        return step if isinstance(step, SelectionPath | ConditionalPath) else SelectionPath(step.run, fuse=self.fuse)

    def index(self, node: Call, optional: bool) -> PlanStep:
        base, key = (self.plan(argument) for argument in node.args)
        if isinstance(key, Constant):
            try:
                paths.check_key(key.value)
            except CelError as failure:
                raise PlanError(str(failure)) from None
            selection = Qualifier(key.value, optional=optional)
        elif isinstance(key, SelectionPath | ConditionalPath):
            resolve = key.resolve
            selection = Qualifier(ABSENT, lambda frame: paths.rewrap_optional(resolve(frame)), optional)
        else:
            run = key.run
            selection = Qualifier(ABSENT, lambda frame: paths.rewrap_optional(run(frame)), optional)
        return self.as_path(base).extended(selection)

    def conditional(self, node: Call) -> PlanStep:
        condition, truthy, falsy = (self.plan(argument) for argument in node.args)
        return ConditionalPath(condition.run, self.as_branch(truthy), self.as_branch(falsy))

    def as_branch(self, step: PlanStep) -> SelectionPath | ConditionalPath:
        """A branch of ``?:`` as a path, without selections if it is not one."""
        if isinstance(step, SelectionPath | ConditionalPath):
            return step
        return SelectionPath(step.run, plain_root=isinstance(step, Constant), fuse=self.fuse)

    # --- literals ------------------------------------------------------------------------------------------------

    def list_literal(self, node: ListExpr) -> PlanStep:
        steps = [self.plan(element) for element in node.elements]
        optional = frozenset(node.optional_indices)
        run = aggregate_literals.list_literal(steps, optional)
        if all(isinstance(step, Constant) for step in steps):
            return self.fold_constants(run)
        return PlanStep(run)

    def map_literal(self, node: MapExpr) -> PlanStep:
        entries = [(self.plan(e.key), self.plan(e.value), e.optional) for e in node.entries]
        run = aggregate_literals.map_literal(entries)
        if all(isinstance(key, Constant) and isinstance(value, Constant) for key, value, _ in entries):
            return self.fold_constants(run)
        return PlanStep(run)

    def fold_constants(self, run: Run) -> Constant:
        """Evaluates a literal of constants at plan time; it has no cost at run time."""
        try:
            return Constant(run([0, 0, 0, None]))
        except CelError as failure:
            raise PlanError(str(failure)) from None

    def message(self, node: StructExpr) -> PlanStep:
        fields = [(field.name, self.plan(field.value).run, field.optional) for field in node.fields]
        return PlanStep(aggregate_literals.message_literal(node.name.removeprefix("."), fields))

    # --- logic ---------------------------------------------------------------------------------------------------

    def chain_operands(self, node: Call, function: str) -> list[Run]:
        """The operands of nested ``&&`` or ``||``: a flat chain gives the same result as the balanced tree."""
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

    def call(self, node: Call) -> PlanStep:
        function = node.function
        special = _OPERATOR_PLANNERS.get(function)
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
            return self.optional_or(function, arguments)
        steps = [self.plan(argument) for argument in arguments]
        if function == ast.IN and overload == "in_list" and isinstance(steps[1], Constant):
            found = membership(steps[0].run, steps[1].value)
            if found is not None:
                return Constant(False) if found is ABSENT else PlanStep(found)
        return self.invocation(node, function, overload, steps)

    def optional_or(self, function: str, arguments: Sequence[Node]) -> PlanStep:
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
            if isinstance(value.value, CelError):
                raise value.value
            return value.value

        return PlanStep(run)

    def invocation(self, node: Call, function: str, overload: str, steps: list[PlanStep]) -> PlanStep:
        implementation, sequential = resolve_implementation(
            self.functions, function, overload, len(steps), node.id, checked=not self.unchecked
        )
        if (
            function in _PATTERN_FUNCTIONS
            and len(steps) > 1
            and isinstance(steps[1], Constant)
            and type(steps[1].value) is str
        ):
            try:
                implementation = strings.constant_pattern(function, steps[1].value)
            except RegexError as error:
                raise PlanError(str(error)) from None
            sequential = True
        charge = cost.call(function, overload, self.checked.environment.cel_go)
        if function in conversions.FOLDED and len(steps) == 1 and isinstance(steps[0], Constant):
            return self.fold_constants(calls.call_unary(implementation, steps[0], 0))
        if self.fuse and function in _PARSING_FUNCTIONS and all(isinstance(step, Constant) for step in steps):
            static = _precomputed(implementation, [step.value for step in steps if isinstance(step, Constant)], charge)
            if static is not None:
                return static
        if function in _TRAVERSING_FUNCTIONS:
            steps = [calls.metered(step) for step in steps]
        run = self.call_closure(function, implementation, sequential, steps, charge)
        right_operand = (
            steps[1].value
            if self.fuse and len(steps) == 2 and isinstance(steps[1], Constant | PrecomputedCall)
            else None
        )
        if overload == "quantity_compare_to" and isinstance(right_operand, Quantity):
            before = steps[1].cost if isinstance(steps[1], PrecomputedCall) else 0
            return QuantityComparison(run, steps[0].run, right_operand, before + 1)
        return PlanStep(calls.metered_result(run) if function in _PRINTING_FUNCTIONS else run)

    def call_closure(
        self,
        function: str,
        implementation: calls.Implementation,
        sequential: bool,
        steps: list[PlanStep],
        charge: cost.CostFunction | int,
    ) -> Run:
        if not steps:
            return calls.call_nullary(implementation, charge)
        if sequential or len(steps) > 2:
            return calls.call_sequence(implementation, steps, charge)
        if len(steps) == 1:
            return calls.call_unary(implementation, steps[0], charge)
        fast = _INTEGER_ORDER.get(function)
        if self.fuse and fast is not None and isinstance(steps[1], Constant) and type(steps[1].value) is int:
            number = steps[1].value
            if isinstance(steps[0], QuantityComparison) and isinstance(charge, int):
                compared = steps[0]
                return specializations.compare_quantity(
                    compared.value_run, fast, compared.expected, number, compared.charge + charge
                )
            if isinstance(charge, int):
                return specializations.order_with_int(steps[0].run, fast, implementation, number, charge)
        return calls.call_binary(implementation, steps[0], steps[1], charge)

    # --- equality ------------------------------------------------------------------------------------------------

    def equals(self, node: Call) -> PlanStep:
        left, right = (self.plan(argument) for argument in node.args)
        if self.fuse and isinstance(right, Constant):
            run = _equals_literal(left, right.value, node.function == ast.EQUALS)
            if run is not None:
                return PlanStep(run)
        if any(self.can_be_nested(argument) for argument in node.args):
            left, right = calls.metered(left), calls.metered(right)
        if node.function == ast.EQUALS:
            return PlanStep(calls.call_binary(equal, left, right, lambda values, _: cost.equality(*values)))
        return PlanStep(
            calls.call_binary(specializations.not_equal, left, right, lambda values, _: cost.inequality(*values))
        )

    def can_be_nested(self, node: Node) -> bool:
        static = self.checked.types.get(node.id)
        return static is None or static.kind in _NESTED_KINDS

    # --- comprehensions ------------------------------------------------------------------------------------------

    def comprehension(self, node: Comprehension) -> PlanStep:
        if isinstance(node.loop_condition, Const) and node.loop_condition.value is False:
            return self.bind(node)
        over = self.plan(node.iter_range).run
        slot = self.allocate_slot()
        slot2 = None if node.iter_var2 is None else self.allocate_slot()
        scope: dict[str, tuple[int, Run | None]] = {node.iter_var: (slot, None)}
        if node.iter_var2 is not None and slot2 is not None:
            scope[node.iter_var2] = (slot2, None)
        self.scopes.append(scope)
        try:
            return PlanStep(self.loop(node, over, slot, slot2))
        finally:
            self.scopes.pop()

    def bind(self, node: Comprehension) -> PlanStep:
        slot = self.allocate_slot()
        compute = self.plan(node.accu_init).run
        self.scopes.append({node.accu_var: (slot, compute)})
        try:
            # It is never run, but upstream plans it, and rejects a variable whose value is a type.
            self.plan(node.loop_step)
            return PlanStep(comprehensions.bind(slot, self.plan(node.result).run))
        finally:
            self.scopes.pop()

    def loop(self, node: Comprehension, over: Run, slot: int, slot2: int | None) -> Run:
        step = node.loop_step
        assert isinstance(step, Call)
        if step.function in (ast.AND, ast.OR):
            predicate = self.plan(step.args[1]).run
            return comprehensions.quantifier(over, slot, slot2, predicate, every=step.function == ast.AND)
        keep: Run | None = None
        if step.function == ast.CONDITIONAL:
            keep = self.plan(step.args[0]).run
            insertion = step.args[1]
            assert isinstance(insertion, Call)
            step = insertion
            if isinstance(step.args[1], Const):  # accumulator + 1
                return comprehensions.exists_one(over, slot, slot2, keep)
        if step.function == ast.ADD:
            literal = step.args[1]
            assert isinstance(literal, ListExpr)
            element = self.plan(literal.elements[0])
            return comprehensions.build_collection(over, slot, slot2, keep, self.append_element(element), mapping=False)
        if len(step.args) == 3:
            accumulate = comprehensions.insert_entry(slot, self.plan(step.args[2]).run)
        else:
            accumulate = comprehensions.insert_entries(self.plan(step.args[1]).run)
        return comprehensions.build_collection(over, slot, slot2, keep, accumulate, mapping=True)

    def append_element(self, element: PlanStep) -> comprehensions.Accumulate:
        # A list literal of a constant is folded and has no cost.
        return comprehensions.append_element(element.run, 0 if isinstance(element, Constant) else cost.LIST)


# --- closures ----------------------------------------------------------------------------------------------------


def _type_constant(name: str) -> Constant:
    if name not in TYPE_NAMES:
        raise PlanError(f"reference to undefined type: {name}")
    return Constant(TypeValue(name))


def _read_slot(slot: int) -> Run:
    return lambda frame: frame[slot]


def _missing_variable(name: str) -> SelectionPath:
    def run(frame: Frame) -> Value:
        raise CelError(f"no such attribute(s): {name}")

    return SelectionPath(run)


def _dotted(node: Node) -> str | None:
    """The dotted name of selections from an identifier; None for other nodes."""
    fields: list[str] = []
    while isinstance(node, Select) and not node.test_only:
        fields.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join((node.name, *reversed(fields)))


def _and(self: _Planner, node: Call) -> PlanStep:
    return PlanStep(logic.chain(tuple(self.chain_operands(node, ast.AND)), False))


def _or(self: _Planner, node: Call) -> PlanStep:
    return PlanStep(logic.chain(tuple(self.chain_operands(node, ast.OR)), True))


def _not(self: _Planner, node: Call) -> PlanStep:
    return PlanStep(calls.call_unary(logic.negated, self.plan(node.args[0]), 1))


_INTEGER_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ast.LESS: operator.lt, ast.LESS_EQUALS: operator.le, ast.GREATER: operator.gt, ast.GREATER_EQUALS: operator.ge,
}  # fmt: skip


def _equals_literal(left: PlanStep, literal: Value, expected: bool) -> Run | None:
    """A fused closure for ``left == literal``, or ``!=`` if not ``expected``; None if there is none."""
    kind = type(literal)
    if kind is str:
        keys = left.device_keys if isinstance(left, SelectionPath) else None
        if keys == ("driver",):
            return specializations.driver_equals(literal, expected)
        if keys is not None and len(keys) == 3 and keys[0] == "attributes":
            return specializations.attribute_equals_text(keys[1], keys[2], literal, expected)
        return specializations.equals_text(left.run, literal, expected)
    if kind is int or kind is bool:
        return specializations.equals_scalar(left.run, literal, expected)
    return None


def _precomputed(
    implementation: calls.Implementation, values: list[Value], charge: cost.CostFunction | int
) -> PrecomputedCall | None:
    """The result of a call made at plan time; None if it fails, because errors are raised at run time."""
    try:
        value = implementation(*values)
    except CelError:
        return None
    return PrecomputedCall(value, charge if isinstance(charge, int) else charge(values, value))


_PLANNERS: Final[dict[type, Callable[[_Planner, Any], PlanStep]]] = {
    Const: _Planner.const, Ident: _Planner.ident, Select: _Planner.select, Call: _Planner.call,
    ListExpr: _Planner.list_literal,
    MapExpr: _Planner.map_literal, StructExpr: _Planner.message, Comprehension: _Planner.comprehension,
}  # fmt: skip

_OPERATOR_PLANNERS: Final[dict[str, Callable[[_Planner, Call], PlanStep]]] = {
    ast.AND: _and, ast.OR: _or, ast.NOT: _not, ast.EQUALS: _Planner.equals, ast.NOT_EQUALS: _Planner.equals,
    ast.CONDITIONAL: _Planner.conditional,
    ast.INDEX: lambda planner, node: planner.index(node, False),
    ast.OPT_INDEX: lambda planner, node: planner.index(node, True),
    ast.OPT_SELECT: lambda planner, node: planner.index(node, True),
}  # fmt: skip
