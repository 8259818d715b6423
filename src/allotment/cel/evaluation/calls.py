"""Evaluation of calls: arguments, type guards, dispatch and cost.

Upstream has two kinds of calls, whose difference is visible in costs. A function of one or two arguments with a single
implementation evaluates all arguments, returns the first error among them, and is always charged. Any other call stops
at the first failing argument, and is then charged only if that is the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from allotment.cel.checking import types
from allotment.cel.checking.types import Type, TypeKind
from allotment.cel.evaluation.cost import CostFunction
from allotment.cel.evaluation.library.named_formats import NamedFormat
from allotment.cel.evaluation.library.network import CIDR, IP
from allotment.cel.evaluation.library.url import URL
from allotment.cel.evaluation.steps import COST, Constant, Frame, PlanStep, PrecomputedCall, Run, charge_work
from allotment.cel.evaluation.values import (
    CelError,
    Duration,
    ListValue,
    MapValue,
    QuantityPointer,
    Timestamp,
    Uint,
    Value,
    no_such_overload,
    type_name,
)
from allotment.model.quantity import Quantity
from allotment.model.semver import Semver

Implementation: TypeAlias = Callable[..., Value]

_UNRESTRICTED: Final = frozenset({TypeKind.DYN, TypeKind.ANY, TypeKind.PARAM})


def matches_type(declared: Type, value: Value) -> bool:
    """Whether a value matches a parameter type; for lists and maps, upstream checks the first entry only."""
    if declared.kind in _UNRESTRICTED:
        return True
    if declared.name != type_name(value):
        return False
    if declared.kind is TypeKind.LIST:
        return not value.size or matches_type(declared.params[0], value.at(0))
    if declared.kind is TypeKind.MAP:
        if not value.entries:
            return True
        key = value.ordered_keys()[0]
        return matches_type(declared.params[0], key) and matches_type(declared.params[1], value.find(key))
    return True


_PYTHON_TYPES: Final[dict[Type, frozenset[type]]] = {
    types.STRING: frozenset({str}), types.INT: frozenset({int}), types.UINT: frozenset({Uint}),
    types.BOOL: frozenset({bool}), types.BYTES: frozenset({bytes}), types.DOUBLE: frozenset({float}),
    types.TIMESTAMP: frozenset({Timestamp}), types.DURATION: frozenset({Duration}),
    types.QUANTITY: frozenset({Quantity, QuantityPointer}), types.SEMVER: frozenset({Semver}),
    types.IP: frozenset({IP}), types.CIDR: frozenset({CIDR}), types.URL: frozenset({URL}),
    types.FORMAT: frozenset({NamedFormat}),
}  # fmt: skip


def guard_types(function: str, params: tuple[Type, ...], implementation: Implementation) -> Implementation:
    """An implementation that raises ``no such overload`` for arguments of types other than the declared ones."""
    if all(p.kind in _UNRESTRICTED for p in params):
        return implementation
    classes = [_PYTHON_TYPES.get(p) for p in params]
    if len(params) == 1 and classes[0] is not None:
        return _guard_one(function, classes[0], implementation)
    if len(params) == 2 and classes[0] is not None and classes[1] is not None:
        return _guard_two(function, classes[0], classes[1], implementation)

    def guard(*arguments: Value) -> Value:
        for declared, value in zip(params, arguments, strict=True):
            if not matches_type(declared, value):
                raise no_such_overload(function, arguments)
        return implementation(*arguments)

    return guard


def _guard_one(function: str, accepted: frozenset[type], implementation: Implementation) -> Implementation:
    def guard(value: Value) -> Value:
        if type(value) not in accepted:
            raise no_such_overload(function, (value,))
        return implementation(value)

    return guard


def _guard_two(
    function: str, first: frozenset[type], second: frozenset[type], implementation: Implementation
) -> Implementation:
    def guard(left: Value, right: Value) -> Value:
        if type(left) not in first or type(right) not in second:
            raise no_such_overload(function, (left, right))
        return implementation(left, right)

    return guard


def dispatch_by_types(
    function: str, candidates: Sequence[tuple[tuple[Type, ...], Implementation, bool]]
) -> Implementation:
    """An implementation that selects the overload by the types of the arguments. A candidate is (parameter types,
    implementation, unguarded)."""

    def dispatch(*arguments: Value) -> Value:
        for params, implementation, unguarded in candidates:
            if len(params) == len(arguments) and (
                unguarded or all(matches_type(p, a) for p, a in zip(params, arguments, strict=True))
            ):
                return implementation(*arguments)
        raise no_such_overload(function, arguments)

    return dispatch


# --- closures ----------------------------------------------------------------------------------------------------

_CONTAINERS: Final = frozenset({ListValue, MapValue})


def metered(argument: PlanStep) -> PlanStep:
    """An argument that its function traverses: the traversal counts as work, after a check of the limit."""
    compute = argument.run

    def run(frame: Frame) -> Value:
        value = compute(frame)
        if type(value) in _CONTAINERS:
            charge_work(frame, value)
        return value

    return PlanStep(run)


def metered_result(compute: Run) -> Run:
    """A call whose result can be much longer than its cost suggests: formatting it counts as work."""

    def run(frame: Frame) -> Value:
        value = compute(frame)
        charge_work(frame, value)
        return value

    return run


def call_nullary(implementation: Implementation, cost: CostFunction | int) -> Run:
    """A call without arguments."""
    charge = cost if isinstance(cost, int) else cost((), None)

    def run(frame: Frame) -> Value:
        frame[COST] += charge
        return implementation()

    return run


def call_unary(implementation: Implementation, argument: PlanStep, cost: CostFunction | int) -> Run:
    """A call of one argument; it is always charged."""
    compute = argument.run
    if isinstance(cost, int):

        def run_fixed(frame: Frame) -> Value:
            try:
                value = compute(frame)
            except CelError:
                frame[COST] += cost
                raise
            frame[COST] += cost
            return implementation(value)

        return run_fixed

    def run(frame: Frame) -> Value:
        value: Value = None
        try:
            value = compute(frame)
        except CelError as failure:
            frame[COST] += cost((failure,), failure)
            raise
        try:
            result = implementation(value)
        except CelError as failure:
            frame[COST] += cost((value,), failure)
            raise
        frame[COST] += cost((value,), result)
        return result

    return run


def call_binary(implementation: Implementation, left: PlanStep, right: PlanStep, cost: CostFunction | int) -> Run:
    """A call of two arguments; both are evaluated, and it is always charged."""
    if isinstance(right, (Constant, PrecomputedCall)):
        return _call_with_constant(implementation, left.run, right, cost)
    first, second = left.run, right.run

    def run(frame: Frame) -> Value:
        failed: CelError | None = None
        try:
            a = first(frame)
        except CelError as failure:
            a = failed = failure
        try:
            b = second(frame)
        except CelError as failure:
            b = failure
            failed = failed or failure
        if failed is None:
            try:
                result = implementation(a, b)
            except CelError as failure:
                result = failed = failure
        else:
            result = failed
        frame[COST] += cost if isinstance(cost, int) else cost((a, b), result)
        if failed is not None:
            raise failed
        return result

    return run


def _call_with_constant(
    implementation: Implementation, first: Run, right: Constant | PrecomputedCall, cost: CostFunction | int
) -> Run:
    b = right.value
    before = right.cost if isinstance(right, PrecomputedCall) else 0
    if isinstance(cost, int):
        charge = before + cost

        def run_fixed(frame: Frame) -> Value:
            try:
                a = first(frame)
            except CelError:
                frame[COST] += charge
                raise
            frame[COST] += charge
            return implementation(a, b)

        return run_fixed

    def run(frame: Frame) -> Value:
        try:
            a = first(frame)
        except CelError as failure:
            frame[COST] += before + cost((failure, b), failure)
            raise
        try:
            result = implementation(a, b)
        except CelError as failure:
            frame[COST] += before + cost((a, b), failure)
            raise
        frame[COST] += before + cost((a, b), result)
        return result

    return run


def call_sequence(implementation: Implementation, arguments: Sequence[PlanStep], cost: CostFunction | int) -> Run:
    """A call that stops at the first failing argument, and is then charged only if that is the last one."""
    steps = tuple(step.run for step in arguments)
    last = len(steps) - 1

    def charge(frame: Frame, values: list[Value], result: Value) -> None:
        frame[COST] += cost if isinstance(cost, int) else cost(values, result)

    def run(frame: Frame) -> Value:
        values: list[Value] = []
        for position, step in enumerate(steps):
            try:
                values.append(step(frame))
            except CelError as failure:
                if position == last:
                    values.append(failure)
                    charge(frame, values, failure)
                raise
        try:
            result = implementation(*values)
        except CelError as failure:
            charge(frame, values, failure)
            raise
        charge(frame, values, result)
        return result

    return run
