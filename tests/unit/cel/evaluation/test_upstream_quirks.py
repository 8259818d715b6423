"""Unexpected upstream behavior, found by comparing random expressions with Kubernetes 1.36.2."""

from __future__ import annotations

import pytest

from allotment.cel.device import DeviceInput
from allotment.cel.errors import CompileError
from allotment.cel.evaluation.values import ABSENT, Optional
from allotment.cel.selector import COST_LIMIT, compile_checked, plan_checked, run_plan
from allotment.model.resource import Device, DeviceAttribute
from tests.unit.cel.compiling import STORED

BOUND = DeviceInput("dra.example.com", Device(attributes={"int": DeviceAttribute(int_=7)})).variable(False)
NONE = "none"


def result_and_cost(source: str) -> tuple[object, int | None]:
    """The value, or the text of the error, and the cost."""
    checked = compile_checked(source, STORED)
    found = run_plan(checked, plan_checked(checked), BOUND, (), COST_LIMIT)
    if found.error is not None:
        return str(found.error), found.cost
    value = found.value
    if type(value) is Optional:
        return (NONE if value.value is ABSENT else ("some", value.value)), found.cost
    return value, found.cost


NO_DURATION = "type conversion error from 'int' to 'google.protobuf.Duration'"
LIMIT = "operation cancelled: actual cost limit exceeded"


@pytest.mark.parametrize(
    ("source", "value", "cost"),
    [
        # The conversion is declared but not implemented.
        ('duration(device.attributes["dra.example.com"].int)', NO_DURATION, 5),
        # The first instant of the year 1 is Go's zero time; the epoch is not.
        ('optional.ofNonZeroValue(timestamp("0001-01-01T00:00:00Z"))', NONE, 1),
        ("optional.ofNonZeroValue(timestamp(0)).hasValue()", True, 2),
        # has() refunds a charge that a conditional does not make.
        ('has((device.driver == "x" ? {"a": 1} : {"b": 1}).a)', False, 3),
        ('has((true ? {"a": {"b": 1}} : {}).a.b)', True, 1),
        ('has((dyn(1) ? {"a": 1} : {"b": 1}).a)', LIMIT, 2**64 - 1),
        # In a branch has() has the cost of its path, and gives an optional if it selects from one.
        ("(true ? has(device.attributes.x) : false)", True, 2),
        ('(true ? has(optional.of({"a": 1}).a) : false)', ("some", 1), 2),
        ('(true ? has(optional.of({"a": 1}).b) : false)', NONE, 1),
        # The minimum int is its own negation.
        ('quantity("40Gi").sub(-9223372036854775808).compareTo(quantity("0"))', -1, 4),
        ('quantity("100E").sub(-9223372036854775808).compareTo(quantity("100E"))', 1, 4),
        # The name of a variable whose value is a type is looked up among the types.
        ('cel.bind(int, type("a"), int == string)', False, 1),
    ],
)  # fmt: skip
def test_values_and_costs(source: str, value: object, cost: int) -> None:
    assert result_and_cost(source) == (value, cost)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("cel.bind(q, type(1), true)", "program instantiation failed: reference to undefined type: q"),
        ("[type(1)].map(t, t)", "program instantiation failed: reference to undefined type: t"),
        ("duration(dyn(1))", f"program instantiation failed: {NO_DURATION}"),
        ('{b"a": 1}[b"a"]', None),  # crashes upstream
    ],
)
def test_planning_errors(source: str, text: str | None) -> None:
    checked = compile_checked(source, STORED)
    with pytest.raises(CompileError) as caught:
        plan_checked(checked)
    assert text is None or str(caught.value) == text
