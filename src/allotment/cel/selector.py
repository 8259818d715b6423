"""Selectors: the face of the CEL compiler.

:func:`compile_selector` takes an expression through all stages; a :class:`Selector` then answers for devices. It is
immutable in effect and safe to share; what is costly and not always needed (the estimate, the conjuncts) is made when
it is first asked for.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property, lru_cache
from typing import Final, Literal

from allotment.cel.checking import types
from allotment.cel.checking.checked_expression import Checked
from allotment.cel.checking.checker import check
from allotment.cel.checking.environment import Environment, environment
from allotment.cel.checking.estimate import estimate
from allotment.cel.checking.validators import validate
from allotment.cel.conjuncts import Conjunct, comparison
from allotment.cel.device import DeviceInput
from allotment.cel.device_references import Read, Reference, reads, references
from allotment.cel.errors import CompileError
from allotment.cel.evaluation.planner import Plan, PlanError, plan
from allotment.cel.evaluation.steps import WORK_LIMIT, CountingFrame, Frame
from allotment.cel.evaluation.values import (
    ABSENT,
    Abort,
    CostExceeded,
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


def require_bool(checked: Checked) -> None:
    """Raises CompileError unless the expression is a bool, or of a type that is only known at run time.

    A device attribute's static type is Any (dyn where lists are accepted), and an expression may be just a boolean
    attribute.
    """
    t = checked.output_type
    if t is types.BOOL or t is types.ANY:
        return
    environment = checked.environment
    if t is types.DYN and (environment.list_attributes or environment.attribute_type is types.DYN):
        return
    raise CompileError(f"must evaluate to bool or the unknown type, not {t}")


#: The limit on what one evaluation may cost (``CELSelectorExpressionMaxCost``).
COST_LIMIT: Final = 1_000_000


def compile_checked(expression: str, env: Environment) -> Checked:
    """Parse, check and validate, without the rule that the result must be a bool. Raises CompileError."""
    checked = check(parse(expression, env.macros), env)
    validate(checked)
    return checked


def plan_checked(checked: Checked, variables: Sequence[str] = (), *, fuse: bool = True) -> Plan:
    """Plan a checked expression. Raises CompileError when a constant part of it fails."""
    try:
        return plan(checked, variables=variables, fuse=fuse)
    except (PlanError, Abort) as error:
        raise CompileError(f"program instantiation failed: {error}", "internal") from None


def compile_selector(expression: str, features: Features, *, env: Literal["stored", "new"] = "stored") -> Selector:
    """A selector from its text. Raises CompileError with upstream's whole text.

    ``env`` is ``new`` for validating a new expression, ``stored`` for one that is in use already.
    """
    return compile_in(expression, environment(features, env))


@lru_cache(maxsize=4096)
def compile_in(expression: str, env: Environment) -> Selector:
    """A selector from its text, in an environment that is made already. Raises CompileError."""
    checked = compile_checked(expression, env)
    require_bool(checked)
    return Selector(checked)


class Evaluation:
    """The outcome of one evaluation: ``value`` or ``error``, and the cost."""

    __slots__ = ("cost", "error", "value")

    def __init__(self, value: Value, error: EvaluationError | None, cost: int | None) -> None:
        self.value = value
        self.error = error
        self.cost = cost


def run_plan(checked: Checked, planned: Plan, device: object, values: Sequence[Value], limit: int) -> Evaluation:
    """Evaluate a plan and count its cost exactly, also where the limit stops it."""
    frame: Frame = [0, limit, WORK_LIMIT, device, *values, *([None] * planned.slots)]
    try:
        value = planned.run(frame)
        if frame[0] > limit or frame[0] < 0:
            raise CostExceeded
    except CostExceeded as error:
        return Evaluation(None, error, _exceeding_cost(checked, planned, device, values, limit))
    except EvaluationError as error:
        if frame[0] > limit or frame[0] < 0:
            exceeded = CostExceeded()
            return Evaluation(None, exceeded, _exceeding_cost(checked, planned, device, values, limit))
        return Evaluation(None, error, frame[0])
    return Evaluation(value, None, frame[0])


def _exceeding_cost(checked: Checked, planned: Plan, device: object, values: Sequence[Value], limit: int) -> int | None:
    """The cost at the step that exceeds the limit, found by counting step by step."""
    stepwise = plan(checked, variables=planned.variables, fuse=False)
    frame = CountingFrame([0, limit, WORK_LIMIT, device, *values, *([None] * stepwise.slots)])
    try:
        stepwise.run(frame)
    except CostExceeded as error:
        return error.cost
    except EvaluationError:
        return None
    return None


class Selector:
    """A compiled device selector.

    >>> from allotment.model.resource import Device
    >>> selector = compile_selector('device.driver == "gpu.example.com"', Features(kube="1.36"))
    >>> selector.matches(DeviceInput("gpu.example.com", Device(name="gpu-0")))
    True
    """

    def __init__(self, checked: Checked) -> None:
        self.expression = checked.parsed.source
        self.checked = checked
        self._lists = checked.environment.list_attributes
        self._plan = plan_checked(checked)
        self._run = self._plan.run
        self._frame: Frame = [0, COST_LIMIT, WORK_LIMIT, None, *([None] * self._plan.slots)]

    def __repr__(self) -> str:
        return f"Selector({self.expression!r})"

    # --- what it is ----------------------------------------------------------------------------------------------

    @cached_property
    def estimated_cost(self) -> int:
        """The highest cost that the API server expects, up to 2^64 - 1; it admits at most a million."""
        return estimate(self.checked)[1]

    @cached_property
    def reads(self) -> frozenset[Read] | None:
        """The paths of a device that the outcome can depend on; None for the whole device."""
        return reads(self.checked.expr)

    @cached_property
    def references(self) -> tuple[Reference, ...]:
        """The attributes and capacities that the expression names, by position."""
        return references(self.checked.expr)

    @cached_property
    def conjuncts(self) -> tuple[Conjunct, ...]:
        """The operands of the outermost ``&&`` in the order of the text."""
        found: list[Conjunct] = []
        nodes = {id(term.node): term for term in self.checked.parsed.conjuncts()}
        for term in nodes.values():
            text = self.expression[term.start : term.stop].strip()
            part = _Part(plan(self.checked, term.node), self._lists)
            found.append(Conjunct(text, term.start, term.stop, comparison(term.node), part.matches))
        return tuple(found)

    # --- what it says --------------------------------------------------------------------------------------------

    def matches(self, device: DeviceInput) -> bool:
        """Whether a device is selected. Raises EvaluationError, which ends the allocation attempt upstream."""
        bound = device.listed if self._lists else device.plain
        if bound is None:
            bound = device.bound(self._lists)
        if bound.problem is not None:
            raise EvaluationError(bound.problem)
        frame = self._frame[:]
        frame[3] = bound
        try:
            value = self._run(frame)
        except EvaluationError as error:
            raise _reported(error, frame) from None
        if not 0 <= frame[0] <= COST_LIMIT:
            raise CostExceeded
        return value if value is True or value is False else as_bool(value)

    def cost(self, device: DeviceInput) -> int:
        """What evaluating costs for a device, exactly as upstream counts it."""
        return self.evaluate(device).cost or 0

    def evaluate(self, device: DeviceInput, limit: int = COST_LIMIT) -> Evaluation:
        """The value before it is taken for a bool, or the error, and the cost."""
        bound = device.bound(self._lists)
        if bound.problem is not None:
            return Evaluation(None, EvaluationError(bound.problem), None)
        return run_plan(self.checked, self._plan, bound, (), limit)

    def project(self, device: DeviceInput) -> Hashable:
        """A key of what this selector can see of a device: equal keys, equal answers."""
        bound = device.bound(self._lists)
        if bound.problem is not None:
            return bound.problem
        paths = self._ordered_reads
        if paths is None:
            return tuple(map(bound.key, (("driver",), ("allowMultipleAllocations",), ("attributes",), ("capacity",))))
        return tuple(map(bound.key, paths))

    @cached_property
    def _ordered_reads(self) -> tuple[Read, ...] | None:
        return None if self.reads is None else tuple(sorted(self.reads))

    def match_classes(self, devices: Sequence[DeviceInput]) -> list[bool | EvaluationError]:
        """The answer for each device, evaluated once per distinct projection.

        Devices that share a DeviceInput are told apart by identity only, which costs a dictionary lookup each.
        """
        return list(map(_Answers(self).__getitem__, devices))


class _Answers(dict[DeviceInput, "bool | EvaluationError"]):
    """A selector's answers by input, found when they are asked for: an input that came before is one look-up in C."""

    def __init__(self, selector: Selector) -> None:
        self._selector = selector
        self._by_projection: dict[Hashable, bool | EvaluationError] = {}

    def __missing__(self, device: DeviceInput) -> bool | EvaluationError:
        key = self._selector.project(device)
        answer = self._by_projection.get(key)
        if answer is None:
            try:
                answer = self._selector.matches(device)
            except EvaluationError as error:
                answer = error
            self._by_projection[key] = answer
        self[device] = answer
        return answer


class _Part:
    """A conjunct's own evaluation."""

    __slots__ = ("_frame", "_lists", "_plan")

    def __init__(self, planned: Plan, lists: bool) -> None:
        self._plan = planned
        self._lists = lists
        self._frame: Frame = [0, COST_LIMIT, WORK_LIMIT, None, *([None] * planned.slots)]

    def matches(self, device: DeviceInput) -> bool:
        bound = device.bound(self._lists)
        if bound.problem is not None:
            raise EvaluationError(bound.problem)
        frame = self._frame[:]
        frame[3] = bound
        try:
            value = self._plan.run(frame)
        except EvaluationError as error:
            raise _reported(error, frame) from None
        return value if value is True or value is False else as_bool(value)


def _reported(error: EvaluationError, frame: Frame) -> EvaluationError:
    # The limit counts before any error that came after it.
    return CostExceeded() if frame[0] > COST_LIMIT or frame[0] < 0 else error


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
    """The result of a selector as a bool: an unknown type may hold anything."""
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
