"""Runtime costs that the recorded vectors do not cover, and the cost limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel import DeviceInput
from allotment.cel.evaluation import cost
from allotment.cel.evaluation.equality import equal
from allotment.model.resource import Device, DeviceAttribute
from tests.unit.cel.compiling import STORED_1_37
from tests.unit.cel.evaluating import evaluate

TYPICAL = (
    'device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model == "A100" && '
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("20Gi")) >= 0'
)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (TYPICAL, 4 + 5 + 7),
        ('device.attributes["gpu.example.com"].model', 4),
        ('has(device.attributes["gpu.example.com"].model)', 3),
        ("dyn(device).driver", 4),
        # A missing name is charged like an existing one; an optional missing one is not.
        ('device.attributes["gpu.example.com"].nope', 4),
        ('device.attributes["gpu.example.com"].?nope', 3),
        # Both operands of an operator are evaluated even if the first one fails; arguments of a function are not.
        ("1/0 + 1/0", 3),
        ('"x".replace(string(1/0), string(1/0))', 2),
        # A branch that is a path has only the cost of its selections.
        ('true ? device.driver : "x"', 1),
        ("cel.bind(x, 1/0, true)", 0),
        ("cel.bind(x, 1 + 1, x == 2 && x == 2)", 5),
        ("[1, 2, 3].all(x, x > 0)", 16),
        ("[3, 2, 1].exists(x, x > 1)", 10),
        ("1 in [1, 2, 3]", 0),
        ("lists.range(10).size()", 22),
    ],
)
def test_runtime_costs(expression: str, expected: int) -> None:
    assert evaluate(expression).cost == expected


@pytest.mark.parametrize(
    ("expression", "before", "since_1_37"),
    [
        # Charged by the text, from 1.37 on by the prefix.
        ('"abcdefghijklmnopqrstuvwxyz".startsWith("abcdefghijk")', 3, 2),
        ('"abcdefghijklmnopqrstuvwxyz".endsWith("z")', 3, 1),
        ('matches("aaaaaaaaaaaa", "a+")', 1, 2),
        ('"aaaaaaaaaaaa".matches("a+")', 2, 2),
        ("[1, 2, 3].includes(4)", 1, 3),
    ],
)
def test_runtime_costs_that_changed_in_1_37(expression: str, before: int, since_1_37: int) -> None:
    assert evaluate(expression).cost == before
    assert evaluate(expression, environment=STORED_1_37).cost == since_1_37


@pytest.mark.parametrize(
    "expression", [TYPICAL, "[1, 2, 3].all(x, [x].exists(y, y > 0 || 1/0 > 0))", "(true ? device : dyn(1)).driver"]
)
def test_the_limit_stops_at_the_step_that_exceeds_it(expression: str) -> None:
    full_cost = evaluate(expression).cost
    assert full_cost is not None
    assert evaluate(expression, limit=full_cost).error is None
    costs = []
    for limit in range(full_cost):
        stopped = evaluate(expression, limit=limit)
        assert str(stopped.error) == "operation cancelled: actual cost limit exceeded"
        assert stopped.cost is not None
        assert limit < stopped.cost <= full_cost
        costs.append(stopped.cost)
    assert costs == sorted(costs)


def test_exceeding_the_limit_is_not_absorbed() -> None:
    stopped = evaluate("lists.range(900000).all(x, x >= 0) || true")
    assert str(stopped.error) == "operation cancelled: actual cost limit exceeded"


def test_a_negative_depth_wraps_around_as_in_go() -> None:
    assert evaluate("[1, 2].flatten(-1)").cost == 9
    assert str(evaluate("[1].flatten(-1)").error) == "level must be non-negative"


@given(st.text(max_size=30), st.text(max_size=30))
def test_fused_closures_charge_the_general_cost(left: str, right: str) -> None:
    """The fused closure of ``attribute == literal`` must have the cost of the rule for ``==``."""
    device = DeviceInput(left, Device(attributes={"x": DeviceAttribute(string=left)}))
    literal = '"' + "".join(f"\\U{ord(c):08x}" for c in right) + '"'
    if any(0xD800 <= ord(c) < 0xE000 for c in left + right):
        return
    for path, selections in (
        (f"device.attributes[device.driver].x == {literal}", 5),
        (f"device.driver == {literal}", 2),
    ):
        found = evaluate(path, device=device)
        assert found.value is equal(left, right)
        assert found.cost == selections + cost.equality(left, right)
