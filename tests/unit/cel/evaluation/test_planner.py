from __future__ import annotations

import pytest

from allotment.cel import CompileError
from allotment.cel.selector import plan_checked
from tests.unit.cel.compiling import DYNAMIC, compiled
from tests.unit.cel.evaluating import evaluate, outcome


def plan_error(expression: str) -> str:
    with pytest.raises(CompileError) as failed:
        plan_checked(compiled(expression, DYNAMIC))
    assert failed.value.kind == "internal"
    return str(failed.value).removeprefix("program instantiation failed: ")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ('int("abc")', "type conversion error from 'string' to 'int'"),
        ('int(dyn("x"))', "type conversion error from 'string' to 'int'"),
        ('"a".find("[")', "error parsing regexp: missing closing ]: `[`"),
        ('"a".matches(dyn("["))', "error parsing regexp: missing closing ]: `[`"),
        ("{1: 2}[dyn(null)]", "invalid qualifier type: types.Null"),
        ("cel.bind(x, type(1), x == int)", "reference to undefined type: x"),
    ],
)
def test_errors_in_constants_are_compile_errors(expression: str, text: str) -> None:
    assert plan_error(expression) == text


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # Only conversions and literals are folded.
        ("1 / 0 == 1", "error: division by zero"),
        (
            'quantity("zz")',
            "error: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ('int(dyn("7"))', 7),
        ("1/0 in []", False),
        ("dyn(1u) in [1, 2]", True),
        ("dyn(1.5) in [1, 2]", False),
        ('dyn(b"a") in ["a"]', "error: internal error: runtime error: hash of unhashable type types.Bytes"),
        ("false && 1/0 > 0", False),
        ("1/0 > 0 && false", False),
        ("1/0 > 0 || 2 % 0 > 0", "error: division by zero"),
        ("dyn(1) && true", "error: no such overload"),
        ("1/0 > 0 ? true : false", "error: division by zero"),
        ("dyn(1) ? true : false", "error: no such overload"),
        ("optional.none().orValue(1/0)", "error: division by zero"),
        ("optional.of(1).orValue(1/0)", 1),
        ("dyn(1).orValue(2)", 1),
        ('dyn(1).startsWith("a")', "error: no such overload"),
        ("dyn(1).lowerAscii()", "error: no such overload: lowerAscii(int)"),
        ("dyn(null) < dyn(2)", "error: no such overload: _<_"),
        ('dyn("a") < dyn(2)', "error: no such overload"),
        ("dyn(1).size()", "error: no such overload: size"),
        (
            'dyn("abc").distinct()',
            "error: internal error: interface conversion: types.String is not traits.Lister: missing method Contains",
        ),
        ("{'a': 1, 'a': 2}", {"a": 2}),
        ("{dyn(1): 1, dyn(1u): 2}.size()", 2),
        ("[1, ?optional.none(), ?optional.of(2)]", [1, 2]),
        ("{?'a': optional.none(), ?'b': optional.of(2)}", {"b": 2}),
        ("google.protobuf.Int64Value{value: 3}", 3),
        ("google.protobuf.Int32Value{value: 3000000000}", "error: integer overflow"),
    ],
)
def test_results(expression: str, expected: object) -> None:
    assert outcome(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("cel.bind(q, optional.of(quantity('1')), q.hasValue())", True),
        (
            "cel.bind(q, optional.of(quantity('1')), q.value())",
            "error: unsupported conversion to ref.Val: (*resource.Quantity)1",
        ),
        (
            "(true ? optional.of(semver('1.0.0')) : optional.none()).value()",
            "error: unsupported conversion to ref.Val: (semver.Version)1.0.0",
        ),
        ("cel.bind(o, optional.of(optional.of(1)), o.value())", 1),
    ],
)
def test_optionals_are_converted_via_native_go_values(expression: str, expected: object) -> None:
    """Upstream unwraps an optional from a variable or a branch; values without a native Go value become errors."""
    assert outcome(f"dyn({expression})") == expected


@pytest.mark.parametrize(
    "expression",
    [
        'device.driver == "gpu.example.com"',
        'device.attributes["gpu.example.com"].model != "x"',
        'device.attributes["gpu.example.com"].index == 3',
        'device.attributes["gpu.example.com"].nope == "x"',
        'device.capacity["gpu.example.com"].memory.compareTo(quantity("41Gi")) < 0',
        'device.attributes["gpu.example.com"].model.compareTo(quantity("1")) < 0',
        'device.capacity["gpu.example.com"].memory.compareTo(dyn(1)) < 0',
        'has(device.attributes["gpu.example.com"].model)',
        'has(device.capacity["nope"].x)',
        'device.attributes["gpu.example.com"].?model.orValue("x") == "A100"',
        'device.attributes["gpu.example.com"].healthy',
        'device.attributes["gpu.example.com"].index > 2',
        'device.attributes["gpu.example.com"].firmware.isGreaterThan(semver("1.2.2"))',
    ],
)
def test_fused_closures_agree_with_the_general_ones(expression: str) -> None:
    """A plan with ``fuse=False`` has no fused closures."""
    from allotment.cel.selector import COST_LIMIT, run_plan
    from tests.unit.cel.evaluating import DEVICE

    checked = compiled(expression, DYNAMIC)
    general = run_plan(checked, plan_checked(checked, fuse=False), DEVICE.variable(True), (), COST_LIMIT)
    fused = evaluate(expression)
    assert (fused.value, str(fused.error), fused.cost) == (general.value, str(general.error), general.cost)
