from __future__ import annotations

import pytest

from allotment.cel import Comparison, EvaluationError, compile_selector
from allotment.cel.conjuncts import comparison
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
        ('$C.compareTo(quantity("40Gi")) >= 0', Comparison(MEMORY, ">=", GI)),
        ('$C.compareTo(quantity("40Gi")) == -1', Comparison(MEMORY, "<", GI)),
        ('$C.compareTo(quantity("40Gi")) != 1', Comparison(MEMORY, "<=", GI)),
        ('0 < $C.compareTo(quantity("40Gi"))', Comparison(MEMORY, ">", GI)),
        ('quantity("40Gi").compareTo($C) <= 0', Comparison(MEMORY, ">=", GI)),
        ('$C.isGreaterThan(quantity("40Gi"))', Comparison(MEMORY, ">", GI)),
        ('!$C.isLessThan(quantity("40Gi"))', Comparison(MEMORY, ">=", GI)),
        ('quantity("40Gi").isLessThan($C)', Comparison(MEMORY, ">", GI)),
        ('$C == quantity("40Gi")', Comparison(MEMORY, "==", GI)),
        ('$A == "A100"', Comparison(MODEL, "==", "A100")),
        ('"A100" != $A', Comparison(MODEL, "!=", "A100")),
        ('$A in ["A100", "H100"]', Comparison(MODEL, "in", ("A100", "H100"))),
        ("$A > 5", Comparison(MODEL, ">", 5)),
        ("5 > $A", Comparison(MODEL, "<", 5)),
        ("$A", Comparison(MODEL, "==", True)),
        ("!$A", Comparison(MODEL, "!=", True)),
        ('$A.isGreaterThan(semver("v1", true))', Comparison(MODEL, ">", Semver.parse("1.0.0"))),
        ('device.driver == "x"', Comparison(("driver",), "==", "x")),
        ("device.allowMultipleAllocations", Comparison(("allowMultipleAllocations",), "==", True)),
        ('$A.startsWith("A")', None),
        ("$A == $A", None),
        ('$C.compareTo(quantity("x")) >= 0', None),
        ('$A in ["A100", device.driver]', None),
        ("has($A) == true", None),
        ("$A.x == 1", None),
        ("true", None),
    ],
)
def test_comparisons_in_every_spelling(expression: str, expected: Comparison | None) -> None:
    written = expression.replace("$C", 'device.capacity["gpu.example.com"].memory')
    written = written.replace("$A", 'device.attributes["gpu.example.com"].model')
    assert comparison(compiled(written, DYNAMIC).expr) == expected


def test_conjuncts_are_taken_apart_in_the_order_of_the_text() -> None:
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


def test_a_selector_without_and_is_its_only_conjunct() -> None:
    (only,) = compile_selector('device.driver == "x" || true', FEATURES).conjuncts
    assert only.text == 'device.driver == "x" || true'
    assert only.matches(DEVICE)


def test_a_conjunct_fails_as_the_selector_would() -> None:
    conjunct = compile_selector('true && device.attributes["gpu.example.com"].nope == 1', FEATURES).conjuncts[1]
    with pytest.raises(EvaluationError, match="no such key: nope"):
        conjunct.matches(DEVICE)


def test_the_actual_value_beside_the_wanted_one() -> None:
    assert Comparison(MEMORY, ">=", Quantity.parse("80Gi")).actual(DEVICE) == GI
    assert Comparison(MODEL, "==", "H100").actual(DEVICE) == "A100"
    assert Comparison(("driver",), "==", "x").actual(DEVICE) == "gpu.example.com"
    assert Comparison(("attributes", "nope", "x"), "==", 1).actual(DEVICE) is None
