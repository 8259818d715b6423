"""Calls at run time: arguments, guards, dispatch and cost.

Upstream has two ways to call. A function of one or two arguments with one implementation evaluates all arguments, then
returns the first failure among them, and is charged in any case. Everything else stops at the first failing argument,
and is charged only if that was the last one. Both are observable in costs, so both are here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from allotment.cel.checking import types
from allotment.cel.checking.types import Kind, Type
from allotment.cel.evaluation.cost import CostOf
from allotment.cel.evaluation.library.named_formats import Format
from allotment.cel.evaluation.library.network import CIDR, IP
from allotment.cel.evaluation.library.url import URL
from allotment.cel.evaluation.steps import COST, Constant, Frame, Run, Static, Step, work
from allotment.cel.evaluation.values import (
    Duration,
    Failure,
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

_ANYTHING: Final = frozenset({Kind.DYN, Kind.ANY, Kind.PARAM})


def fits(declared: Type, value: Value) -> bool:
    """Whether a value may be passed for a declared parameter; of lists and maps, upstream looks at the first entry."""
    if declared.kind in _ANYTHING:
        return True
    if declared.name != type_name(value):
        return False
    if declared.kind is Kind.LIST:
        return not value.size or fits(declared.params[0], value.at(0))
    if declared.kind is Kind.MAP:
        if not value.entries:
            return True
        key = value.ordered_keys()[0]
        return fits(declared.params[0], key) and fits(declared.params[1], value.find(key))
    return True


_CLASSES: Final[dict[Type, frozenset[type]]] = {
    types.STRING: frozenset({str}), types.INT: frozenset({int}), types.UINT: frozenset({Uint}),
    types.BOOL: frozenset({bool}), types.BYTES: frozenset({bytes}), types.DOUBLE: frozenset({float}),
    types.TIMESTAMP: frozenset({Timestamp}), types.DURATION: frozenset({Duration}),
    types.QUANTITY: frozenset({Quantity, QuantityPointer}), types.SEMVER: frozenset({Semver}),
    types.IP: frozenset({IP}), types.CIDR: frozenset({CIDR}), types.URL: frozenset({URL}),
    types.FORMAT: frozenset({Format}),
}  # fmt: skip


def guarded(function: str, params: tuple[Type, ...], implementation: Implementation) -> Implementation:
    """An implementation that answers ``no such overload`` to arguments of other types than declared."""
    if all(p.kind in _ANYTHING for p in params):
        return implementation
    classes = [_CLASSES.get(p) for p in params]
    if len(params) == 1 and classes[0] is not None:
        return _guard_one(function, classes[0], implementation)
    if len(params) == 2 and classes[0] is not None and classes[1] is not None:
        return _guard_two(function, classes[0], classes[1], implementation)

    def guard(*arguments: Value) -> Value:
        for declared, value in zip(params, arguments, strict=True):
            if not fits(declared, value):
                raise no_such_overload(function, arguments)
        return implementation(*arguments)

    return guard


def _guard_one(function: str, wanted: frozenset[type], implementation: Implementation) -> Implementation:
    def guard(value: Value) -> Value:
        if type(value) not in wanted:
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


def dispatched(function: str, candidates: Sequence[tuple[tuple[Type, ...], Implementation, bool]]) -> Implementation:
    """An implementation that picks the overload which the arguments fit; a candidate is (parameters, implementation,
    unguarded)."""

    def dispatch(*arguments: Value) -> Value:
        for params, implementation, unguarded in candidates:
            if len(params) == len(arguments) and (
                unguarded or all(fits(p, a) for p, a in zip(params, arguments, strict=True))
            ):
                return implementation(*arguments)
        raise no_such_overload(function, arguments)

    return dispatch


# --- closures ----------------------------------------------------------------------------------------------------

_CONTAINERS: Final = frozenset({ListValue, MapValue})


def metered(argument: Step) -> Step:
    """An argument that its function will traverse: the visit counts as work, and comes after a look at the limit."""
    compute = argument.run

    def run(frame: Frame) -> Value:
        value = compute(frame)
        if type(value) in _CONTAINERS:
            work(frame, value)
        return value

    return Step(run)


def metered_result(compute: Run) -> Run:
    """A call whose result may be much longer than what it was charged for."""

    def run(frame: Frame) -> Value:
        value = compute(frame)
        work(frame, value)
        return value

    return run


def call_nullary(implementation: Implementation, cost: CostOf | int) -> Run:
    """A call without arguments."""
    charge = cost if isinstance(cost, int) else cost((), None)

    def run(frame: Frame) -> Value:
        frame[COST] += charge
        return implementation()

    return run


def call_unary(implementation: Implementation, argument: Step, cost: CostOf | int) -> Run:
    """A call of one argument, which is always charged."""
    compute = argument.run
    if isinstance(cost, int):

        def run_fixed(frame: Frame) -> Value:
            try:
                value = compute(frame)
            except Failure:
                frame[COST] += cost
                raise
            frame[COST] += cost
            return implementation(value)

        return run_fixed

    def run(frame: Frame) -> Value:
        value: Value = None
        try:
            value = compute(frame)
        except Failure as failure:
            frame[COST] += cost((failure,), failure)
            raise
        try:
            result = implementation(value)
        except Failure as failure:
            frame[COST] += cost((value,), failure)
            raise
        frame[COST] += cost((value,), result)
        return result

    return run


def call_binary(implementation: Implementation, left: Step, right: Step, cost: CostOf | int) -> Run:
    """A call of two arguments that evaluates both and is always charged."""
    if isinstance(right, (Constant, Static)):
        return _call_with_constant(implementation, left.run, right, cost)
    first, second = left.run, right.run

    def run(frame: Frame) -> Value:
        failed: Failure | None = None
        try:
            a = first(frame)
        except Failure as failure:
            a = failed = failure
        try:
            b = second(frame)
        except Failure as failure:
            b = failure
            failed = failed or failure
        if failed is None:
            try:
                result = implementation(a, b)
            except Failure as failure:
                result = failed = failure
        else:
            result = failed
        frame[COST] += cost if isinstance(cost, int) else cost((a, b), result)
        if failed is not None:
            raise failed
        return result

    return run


def _call_with_constant(
    implementation: Implementation, first: Run, right: Constant | Static, cost: CostOf | int
) -> Run:
    b = right.value
    before = right.cost if isinstance(right, Static) else 0
    if isinstance(cost, int):
        charge = before + cost

        def run_fixed(frame: Frame) -> Value:
            try:
                a = first(frame)
            except Failure:
                frame[COST] += charge
                raise
            frame[COST] += charge
            return implementation(a, b)

        return run_fixed

    def run(frame: Frame) -> Value:
        try:
            a = first(frame)
        except Failure as failure:
            frame[COST] += before + cost((failure, b), failure)
            raise
        try:
            result = implementation(a, b)
        except Failure as failure:
            frame[COST] += before + cost((a, b), failure)
            raise
        frame[COST] += before + cost((a, b), result)
        return result

    return run


def call_sequence(implementation: Implementation, arguments: Sequence[Step], cost: CostOf | int) -> Run:
    """A call that stops at the first failing argument, and is then charged only when that is the last one."""
    steps = tuple(step.run for step in arguments)
    last = len(steps) - 1

    def charge(frame: Frame, values: list[Value], result: Value) -> None:
        frame[COST] += cost if isinstance(cost, int) else cost(values, result)

    def run(frame: Frame) -> Value:
        values: list[Value] = []
        for position, step in enumerate(steps):
            try:
                values.append(step(frame))
            except Failure as failure:
                if position == last:
                    values.append(failure)
                    charge(frame, values, failure)
                raise
        try:
            result = implementation(*values)
        except Failure as failure:
            charge(frame, values, failure)
            raise
        charge(frame, values, result)
        return result

    return run
