from __future__ import annotations

import pytest

from tests.unit.cel.evaluating import evaluate, outcome


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("[0, 1].exists(x, 2 / x == 2)", True),
        ("[0, 1].all(x, 2 / x == 3)", False),
        ("[0, 1].all(x, 2 / x == 2)", "error: division by zero"),
        ("[0, 1].exists_one(x, 2 / x == 2)", "error: division by zero"),
        ("[1, 0].map(x, 1 / x)", "error: division by zero"),
        ("[1, 0].filter(x, 1 / x > 0)", "error: division by zero"),
        ("[1, 2, 3].map(x, x > 1, x * 2)", [4, 6]),
        ("[1, 2].all(x, dyn(x))", "error: no such overload"),
        ("[5, 6].transformList(i, v, i * v)", [0, 6]),
        ("[5, 6].transformMap(i, v, i > 0, v)", {1: 6}),
        ('{"a": "x", "b": "x"}.transformMapEntry(k, v, {v: k})', "error: insert failed: key x already exists"),
        (
            "[1, 2].transformMapEntry(i, v, {i == 0 ? dyn(1) : dyn(1u): v})",
            "error: insert failed: key 1 already exists",
        ),
        ("[3, 1, 2].sortBy(x, -x)", [3, 2, 1]),
        ("[1, 2].map(x, [3, 4].map(x, x))", [[3, 4], [3, 4]]),
        ("cel.bind(x, 1, cel.bind(x, x + 1, x))", 2),
        ("[1, 2].map(x, cel.bind(y, x * 10, y + y))", [20, 40]),
        ("cel.bind(x, 1/0, [x == 1 || true, true])", [True, True]),
        ("optional.of(1).optMap(x, x + 1)", (2,)),
        ("optional.none().optMap(x, 1/0)", None),
        ("dyn(1).all(x, true)", "error: got 'types.Int', expected iterable type"),
        ("dyn(1).all(x, y, true)", "error: unsupported comprehension range type: types.Int"),
        ("{'b': 1, 'a': 2}.map(k, k)", ["a", "b"]),
        ("[1].exists(device, device == 1)", True),
    ],
)
def test_comprehension_results(expression: str, expected: object) -> None:
    assert outcome(expression) == expected


def test_a_bound_variable_is_computed_once_even_when_it_fails() -> None:
    assert evaluate("cel.bind(x, 1/0 > 0, x || x || true)").cost == 1 + 1 + 1 + 1


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(100000).all(x, x >= 0)",
        "lists.range(60000).map(x, [x]).size() > 0",
        "lists.range(50000).transformMap(i, v, v).size() > 0",
    ],
)
def test_long_loops_take_linear_time(expression: str) -> None:
    found = evaluate(expression)
    assert found.error is None or "cost limit" in str(found.error)
