from __future__ import annotations

import pytest

from allotment.cel import EvaluationError, ValueComparison, compile_selector
from allotment.cel.conjuncts import as_comparison
from allotment.model.features import Features
from allotment.model.quantity import Quantity
from allotment.model.semver import Semver
from tests.unit.cel.compiling import DYNAMIC, compiled
from tests.unit.cel.evaluating import DEVICE

FEATURES = Features(kube="1.36", gates={"DRAListTypeAttributes": True})
MEMORY = ("capacity", "gpu.example.com", "memory")
MODEL = ("attributes", "gpu.example.com", "model")
GI = Quantity.parse("40Gi")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('$C.compareTo(quantity("40Gi")) >= 0', ValueComparison(MEMORY, ">=", GI)),
        ('$C.compareTo(quantity("40Gi")) == -1', ValueComparison(MEMORY, "<", GI)),
        ('$C.compareTo(quantity("40Gi")) != 1', ValueComparison(MEMORY, "<=", GI)),
        ('0 < $C.compareTo(quantity("40Gi"))', ValueComparison(MEMORY, ">", GI)),
        ('quantity("40Gi").compareTo($C) <= 0', ValueComparison(MEMORY, ">=", GI)),
        ('$C.isGreaterThan(quantity("40Gi"))', ValueComparison(MEMORY, ">", GI)),
        ('!$C.isLessThan(quantity("40Gi"))', ValueComparison(MEMORY, ">=", GI)),
        ('quantity("40Gi").isLessThan($C)', ValueComparison(MEMORY, ">", GI)),
        ('$C == quantity("40Gi")', ValueComparison(MEMORY, "==", GI)),
        ('$A == "A100"', ValueComparison(MODEL, "==", "A100")),
        ('"A100" != $A', ValueComparison(MODEL, "!=", "A100")),
        ('$A in ["A100", "H100"]', ValueComparison(MODEL, "in", ("A100", "H100"))),
        ("$A > 5", ValueComparison(MODEL, ">", 5)),
        ("5 > $A", ValueComparison(MODEL, "<", 5)),
        ("$A", ValueComparison(MODEL, "==", True)),
        ("!$A", ValueComparison(MODEL, "!=", True)),
        ('$A.isGreaterThan(semver("v1", true))', ValueComparison(MODEL, ">", Semver.parse("1.0.0"))),
        ('device.driver == "x"', ValueComparison(("driver",), "==", "x")),
        ("device.allowMultipleAllocations", ValueComparison(("allowMultipleAllocations",), "==", True)),
        ('$A.startsWith("A")', None),
        ("$A == $A", None),
        ('$C.compareTo(quantity("x")) >= 0', None),
        ('$A in ["A100", device.driver]', None),
        ("has($A) == true", None),
        ("$A.x == 1", None),
        ("true", None),
    ],
)
def test_comparisons_are_recognized_in_every_spelling(expression: str, expected: ValueComparison | None) -> None:
    written = expression.replace("$C", 'device.capacity["gpu.example.com"].memory')
    written = written.replace("$A", 'device.attributes["gpu.example.com"].model')
    assert as_comparison(compiled(written, DYNAMIC).expr) == expected


def test_conjuncts_are_in_text_order() -> None:
    selector = compile_selector(
        'device.driver == "gpu.example.com" &&\n  (device.attributes["gpu.example.com"].index == 3 && true) && 1 == 2',
        FEATURES,
    )
    assert [c.text for c in selector.conjuncts] == [
        'device.driver == "gpu.example.com"',
        'device.attributes["gpu.example.com"].index == 3',
        "true",
        "1 == 2",
    ]
    assert [c.matches(DEVICE) for c in selector.conjuncts] == [True, True, True, False]
    assert not selector.matches(DEVICE)
    for conjunct in selector.conjuncts:
        assert conjunct.text in selector.expression[conjunct.start : conjunct.stop]


def test_a_selector_without_and_is_a_single_conjunct() -> None:
    (only,) = compile_selector('device.driver == "x" || true', FEATURES).conjuncts
    assert only.text == 'device.driver == "x" || true'
    assert only.matches(DEVICE)


def test_a_conjunct_raises_the_error_of_the_selector() -> None:
    conjunct = compile_selector('true && device.attributes["gpu.example.com"].nope == 1', FEATURES).conjuncts[1]
    with pytest.raises(EvaluationError, match="no such key: nope"):
        conjunct.matches(DEVICE)


def test_actual_returns_the_value_of_the_device() -> None:
    assert ValueComparison(MEMORY, ">=", Quantity.parse("80Gi")).actual(DEVICE) == GI
    assert ValueComparison(MODEL, "==", "H100").actual(DEVICE) == "A100"
    assert ValueComparison(("driver",), "==", "x").actual(DEVICE) == "gpu.example.com"
    assert ValueComparison(("attributes", "nope", "x"), "==", 1).actual(DEVICE) is None
