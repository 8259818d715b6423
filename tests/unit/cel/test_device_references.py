from __future__ import annotations

import pytest

from allotment.cel.device_references import DevicePath, read_paths, references
from tests.unit.cel.compiling import DYNAMIC, compiled

A, C = "attributes", "capacity"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("true", set()),
        ('device.driver == "x"', {("driver",)}),
        ('device.attributes["d"].x == 1 && device.capacity.d["y"] == quantity("1")', {(A, "d", "x"), (C, "d", "y")}),
        ('has(device.attributes["d"].x)', {(A, "d", "x")}),
        ('device.attributes["d"].?x.orValue(1) == 1', {(A, "d", "x")}),
        ('device.attributes[?"d"].?x.hasValue()', {(A, "d", "x")}),
        ('"x" in device.attributes["d"]', {(A, "d", "x")}),
        ('device.attributes["d"].x.y.z == 1', {(A, "d", "x")}),
        ('device.attributes["d"].all(k, k != "")', {(A, "d")}),
        ('device.attributes["d"].size() > 0 && device.attributes["d"].x == 1', {(A, "d")}),
        ('"d" in device.attributes', {(A,)}),
        ("device.attributes[device.driver].x == 1", {(A,), ("driver",)}),
        ('device.attributes["d"][device.driver] == 1', {(A, "d"), ("driver",)}),
        ('cel.bind(d, device.attributes["d"], d.x == 1)', {(A, "d")}),
        ("[1].all(device, device == 1)", set()),
        ("[1].all(x, device.allowMultipleAllocations)", {("allowMultipleAllocations",)}),
        ("cel.bind(device, device.driver, device == '')", {("driver",)}),
        ("dyn(device).driver == ''", None),
        ("dyn(device)[device.driver] == 1", None),
        ("type(device) == map", None),
    ],
)
def test_read_paths(expression: str, expected: set[DevicePath] | None) -> None:
    assert read_paths(compiled(expression, DYNAMIC).expr) == expected


def test_references_are_in_text_order() -> None:
    expression = 'device.capacity["d"].mem.compareTo(quantity("1")) > 0 && has(device.attributes["e"].model)'
    found = references(compiled(expression, DYNAMIC).expr)
    assert [(r.kind, r.domain, r.name, r.optional) for r in found] == [(C, "d", "mem", False), (A, "e", "model", True)]
    assert expression[found[0].pos :].startswith(".mem")


def test_a_name_guarded_by_in_is_optional() -> None:
    (guarded,) = references(compiled('"x" in device.attributes["d"]', DYNAMIC).expr)
    assert (guarded.domain, guarded.name, guarded.optional) == ("d", "x", True)
