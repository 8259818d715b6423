"""Helpers for tests of the evaluation: evaluate an expression for a device, convert the result to plain Python."""

from __future__ import annotations

from typing import Any

from allotment.cel.checking.environment import Environment
from allotment.cel.device import DeviceInput
from allotment.cel.selector import COST_LIMIT, Evaluation, plan_checked, run_plan
from allotment.model.quantity import Quantity
from allotment.model.resource import Device, DeviceAttribute, DeviceCapacity
from tests.unit.cel.compiling import DYNAMIC, compiled
from tests.vectors.cel import typed

DRIVER = "gpu.example.com"
DEVICE = DeviceInput(
    DRIVER,
    Device(
        name="gpu-0",
        attributes={
            "model": DeviceAttribute(string="A100"),
            "index": DeviceAttribute(int_=3),
            "healthy": DeviceAttribute(bool_=True),
            "firmware": DeviceAttribute(version="1.2.3"),
            "modes": DeviceAttribute(strings=("a", "b")),
            "other.example.com/numa": DeviceAttribute(int_=1),
        },
        capacity={"memory": DeviceCapacity(value=Quantity.parse("40Gi"))},
    ),
)


def evaluate(
    source: str, *, device: DeviceInput = DEVICE, environment: Environment = DYNAMIC, limit: int = COST_LIMIT
) -> Evaluation:
    checked = compiled(source, environment)
    return run_plan(checked, plan_checked(checked), device.variable(environment.list_attributes), (), limit)


def outcome(source: str) -> Any:
    """The value in plain Python, or ``error: `` and the error text."""
    found = evaluate(source)
    return f"error: {found.error}" if found.error is not None else plain(typed(found.value))


def plain(shown: Any) -> Any:
    """A typed value without its types."""
    if shown is None:
        return None
    match shown["t"]:
        case "list":
            return [plain(item) for item in shown["v"]]
        case "map":
            return {plain(key): plain(item) for key, item in shown["v"]}
        case "optional":
            return None if shown["v"] is None else (plain(shown["v"]),)
        case "duration":
            return shown["ns"]
        case "quantity":
            return shown["nano"]
    return shown.get("v")
