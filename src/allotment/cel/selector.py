"""Compiled device selectors, the public interface of the CEL compiler.

:func:`compile_selector` runs all stages of the compiler; the :class:`Selector` it returns is evaluated for devices. It
is effectively immutable and safe to share; the cost estimate and the conjuncts are computed on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, lru_cache, partial
from typing import Final, Literal

from allotment.cel.checking import types
from allotment.cel.checking.checked_expression import CheckedExpression
from allotment.cel.checking.checker import check
from allotment.cel.checking.environment import Environment, environment
from allotment.cel.checking.estimate import estimate
from allotment.cel.checking.validators import validate
from allotment.cel.conjuncts import Conjunct, as_comparison
from allotment.cel.device import DeviceInput
from allotment.cel.device_references import DevicePath, DeviceReference, read_paths, references
from allotment.cel.errors import CompileError
from allotment.cel.evaluation.planner import ExpressionPlan, PlanError, plan
from allotment.cel.evaluation.steps import WORK_LIMIT, CountingFrame, Frame
from allotment.cel.evaluation.values import (
    ABSENT,
    CostLimitExceeded,
    EvaluationAborted,
    EvaluationError,
    MapValue,
    Optional,
    TypeValue,
    Uint,
    Value,
    type_name,
)
from allotment.cel.syntax.parser import parse
from allotment.model.features import Features


def require_bool(checked: CheckedExpression) -> None:
    """Raises CompileError unless the expression is a bool, or of a type that is only known at run time.

    An expression can be a single boolean attribute, whose static type is Any (dyn if lists are accepted).
    """
    t = checked.output_type
    if t is types.BOOL or t in checked.environment.unknown_results:
        return
    raise CompileError(f"must evaluate to bool or the unknown type, not {t}")


#: The limit on what one evaluation may cost (``CELSelectorExpressionMaxCost``).
COST_LIMIT: Final = 1_000_000


def compile_checked(expression: str, env: Environment) -> CheckedExpression:
    """Parses, checks and validates an expression of any result type. Raises CompileError."""
    checked = check(parse(expression, env.macros), env)
    validate(checked)
    return checked


def plan_checked(checked: CheckedExpression, variables: Sequence[str] = (), *, fuse: bool = True) -> ExpressionPlan:
    """Plans a checked expression. Raises CompileError if a constant part of it fails."""
    try:
        return plan(checked, variables=variables, fuse=fuse)
    except (PlanError, EvaluationAborted) as error:
        raise CompileError(f"program instantiation failed: {error}", "internal") from None


def compile_selector(expression: str, features: Features, *, env: Literal["stored", "new"] = "stored") -> Selector:
    """Compiles a selector. Raises CompileError with upstream's whole text.

    ``env`` is ``new`` to validate a new expression, ``stored`` for one that is already in use.
    """
    return compile_in_environment(expression, environment(features, env))


@lru_cache(maxsize=4096)
def compile_in_environment(expression: str, env: Environment) -> Selector:
    """Compiles a selector in a given environment. Raises CompileError."""
    checked = compile_checked(expression, env)
    require_bool(checked)
    return Selector(checked)


class Evaluation:
    """The result of one evaluation: ``value`` or ``error``, and the cost."""

    __slots__ = ("_cost", "error", "value")

    def __init__(
        self, value: Value, error: EvaluationError | None, cost: int | Callable[[], int | None] | None
    ) -> None:
        self.value = value
        self.error = error
        self._cost = cost

    @property
    def cost(self) -> int | None:
        """The cost, exact even if it exceeds the limit: then it is computed on first use, which takes a second."""
        if callable(self._cost):
            self._cost = self._cost()
        return self._cost


def run_plan(
    checked: CheckedExpression, plan_: ExpressionPlan, device: object, values: Sequence[Value], limit: int
) -> Evaluation:
    """Evaluates a plan and counts its cost exactly, even if it exceeds the limit."""
    exceeding_cost = partial(_exceeding_cost, checked, plan_, device, values, limit)
    frame: Frame = [0, limit, WORK_LIMIT, device, *values, *([None] * plan_.slots)]
    try:
        value = plan_.run(frame)
        if frame[0] > limit or frame[0] < 0:
            raise CostLimitExceeded
    except CostLimitExceeded as error:
        return Evaluation(None, error, exceeding_cost)
    except EvaluationError as error:
        if frame[0] > limit or frame[0] < 0:
            return Evaluation(None, CostLimitExceeded(), exceeding_cost)
        return Evaluation(None, error, frame[0])
    return Evaluation(value, None, frame[0])


def _exceeding_cost(
    checked: CheckedExpression, plan_: ExpressionPlan, device: object, values: Sequence[Value], limit: int
) -> int | None:
    """The cost at the step that exceeds the limit, from a second evaluation that counts every step."""
    stepwise = plan(checked, variables=plan_.variables, fuse=False)
    frame = CountingFrame([0, limit, WORK_LIMIT, device, *values, *([None] * stepwise.slots)])
    try:
        stepwise.run(frame)
    except CostLimitExceeded as error:
        return error.cost
    except EvaluationError:
        return None
    return None


class CompiledExpression:
    """The properties of an expression that do not depend on a device."""

    def __init__(self, checked: CheckedExpression) -> None:
        self.expression = checked.parsed.source
        self.checked = checked
        self._plan = plan_checked(checked)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.expression!r})"

    @cached_property
    def estimated_cost(self) -> int:
        """The API server's upper bound of the cost, at most 2^64 - 1; it admits estimates up to a million."""
        return estimate(self.checked)[1]

    @cached_property
    def device_paths(self) -> frozenset[DevicePath] | None:
        """The paths of a device that the result can depend on; None for the whole device."""
        return read_paths(self.checked.expr)

    @cached_property
    def references(self) -> tuple[DeviceReference, ...]:
        """The attributes and capacities that the expression names, ordered by position."""
        return references(self.checked.expr)


class Selector(CompiledExpression):
    """A compiled device selector.

    >>> from allotment.model.resource import Device
    >>> selector = compile_selector('device.driver == "gpu.example.com"', Features(kube="1.36"))
    >>> selector.matches(DeviceInput("gpu.example.com", Device(name="gpu-0")))
    True
    """

    def __init__(self, checked: CheckedExpression) -> None:
        super().__init__(checked)
        self._lists = checked.environment.list_attributes
        self._run = self._plan.run
        self._frame: Frame = [0, COST_LIMIT, WORK_LIMIT, None, *([None] * self._plan.slots)]

    @cached_property
    def conjuncts(self) -> tuple[Conjunct, ...]:
        """The operands of the outermost ``&&`` in text order."""
        found: list[Conjunct] = []
        nodes = {id(term.node): term for term in self.checked.parsed.conjuncts()}
        for term in nodes.values():
            text = self.expression[term.start : term.stop].strip()
            part = _ConjunctEvaluator(plan(self.checked, term.node), self._lists)
            found.append(Conjunct(text, term.start, term.stop, as_comparison(term.node), part.matches))
        return tuple(found)

    # --- evaluation ----------------------------------------------------------------------------------------------

    def matches(self, device: DeviceInput) -> bool:
        """Whether a device matches. Raises EvaluationError, which aborts the allocation attempt upstream."""
        bound = device.with_lists if self._lists else device.without_lists
        if bound is None:
            bound = device.variable(self._lists)
        if bound.error is not None:
            raise EvaluationError(bound.error)
        frame = self._frame[:]
        frame[3] = bound
        try:
            value = self._run(frame)
        except EvaluationError as error:
            raise _reported(error, frame) from None
        if not 0 <= frame[0] <= COST_LIMIT:
            raise CostLimitExceeded
        return value if value is True or value is False else as_bool(value)

    def cost(self, device: DeviceInput) -> int:
        """The cost of evaluating a device, exactly as upstream counts it."""
        return self.evaluate(device).cost or 0

    def evaluate(self, device: DeviceInput, limit: int = COST_LIMIT) -> Evaluation:
        """The value before its conversion to bool, or the error, and the cost."""
        bound = device.variable(self._lists)
        if bound.error is not None:
            return Evaluation(None, EvaluationError(bound.error), None)
        return run_plan(self.checked, self._plan, bound, (), limit)

    def projection_key(self, device: DeviceInput) -> Hashable:
        """A key for the data that this selector reads from a device: equal keys give equal results."""
        bound = device.variable(self._lists)
        if bound.error is not None:
            return bound.error
        paths = self._sorted_device_paths
        if paths is None:
            return tuple(
                map(bound.path_key, (("driver",), ("allowMultipleAllocations",), ("attributes",), ("capacity",)))
            )
        return tuple(map(bound.path_key, paths))

    @cached_property
    def _sorted_device_paths(self) -> tuple[DevicePath, ...] | None:
        return None if self.device_paths is None else tuple(sorted(self.device_paths))

    def match_all(self, devices: Sequence[DeviceInput]) -> list[bool | EvaluationError]:
        """The result for each device, evaluated once per distinct projection key.

        A DeviceInput that occurs again costs a dictionary lookup.
        """
        return list(map(_ResultCache(self).__getitem__, devices))


class _ResultCache(dict[DeviceInput, "bool | EvaluationError"]):
    """A selector's results by input, computed on first access; later lookups run in C."""

    def __init__(self, selector: Selector) -> None:
        self._selector = selector
        self._by_projection: dict[Hashable, bool | EvaluationError] = {}

    def __missing__(self, device: DeviceInput) -> bool | EvaluationError:
        key = self._selector.projection_key(device)
        answer = self._by_projection.get(key)
        if answer is None:
            try:
                answer = self._selector.matches(device)
            except EvaluationError as error:
                answer = error
            self._by_projection[key] = answer
        self[device] = answer
        return answer


class _ConjunctEvaluator:
    """Evaluates one conjunct."""

    __slots__ = ("_frame", "_lists", "_plan")

    def __init__(self, plan_: ExpressionPlan, lists: bool) -> None:
        self._plan = plan_
        self._lists = lists
        self._frame: Frame = [0, COST_LIMIT, WORK_LIMIT, None, *([None] * plan_.slots)]

    def matches(self, device: DeviceInput) -> bool:
        bound = device.variable(self._lists)
        if bound.error is not None:
            raise EvaluationError(bound.error)
        frame = self._frame[:]
        frame[3] = bound
        try:
            value = self._plan.run(frame)
        except EvaluationError as error:
            raise _reported(error, frame) from None
        return value if value is True or value is False else as_bool(value)


def _reported(error: EvaluationError, frame: Frame) -> EvaluationError:
    # Exceeding the limit takes precedence over an error that was raised afterwards.
    return CostLimitExceeded() if frame[0] > COST_LIMIT or frame[0] < 0 else error


_UNCONVERTIBLE: Final[dict[type, str]] = {
    int: "unsupported type conversion from 'int' to bool",
    Uint: "unsupported type conversion from 'uint' to bool",
    float: "type conversion error from Double to 'bool'",
    str: "unsupported native conversion from string to 'bool'",
    bytes: "type conversion error from Bytes to 'bool'",
    type(None): "type conversion error from 'null_type' to 'bool'",
    MapValue: "type conversion error from map to 'bool'",
    TypeValue: "type conversion not supported for 'type'",
}


def as_bool(value: Value) -> bool:
    """Converts the result of a selector to bool. Raises EvaluationError for values of other types."""
    inner = value
    while type(inner) is Optional and inner.value is not ABSENT and not isinstance(inner.value, EvaluationError):
        inner = inner.value
    if inner is True or inner is False:
        return inner
    if type(inner) is Optional:
        reason = "optional.none() dereference" if inner.value is ABSENT else str(inner.value)
    else:
        reason = _UNCONVERTIBLE.get(type(inner), "")
        if not reason:
            name = type_name(inner).rpartition(".")[2]
            shown = {"list": "list", "NamedFormat": "'Format'"}.get(name, f"'{name}'")
            reason = f"type conversion error from {shown} to 'bool'"
    raise EvaluationError(f"CEL result of type {type_name(value)} could not be converted to bool: {reason}")
