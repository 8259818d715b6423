"""Hostile but admissible expressions: each must end within seconds, in bounded memory, without a crash.

Upstream would need hours or all memory for many of them; these exceed the cost limit here."""

from __future__ import annotations

import pytest

from tests.unit.cel.evaluating import evaluate

CANCELLED = "operation cancelled: actual cost limit exceeded"


def doubled(start: str, step: str, times: int, end: str) -> str:
    """A chain of bindings, each computed from the previous one (``$``)."""
    text, previous = "", start
    for i in range(times):
        text += f"cel.bind(v{i}, {step.replace('$', previous)}, "
        previous = f"v{i}"
    return text + end.replace("$", previous) + ")" * times


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "expression",
    [
        doubled("[1]", "$ + $", 60, "$.isSorted()"),
        doubled("[1]", "$ + $", 60, "$.all(x, x == 1)"),
        doubled("[1]", "$ + $", 40, "$ == $"),
        doubled("[1]", "[$, $]", 60, "$ == $"),
        doubled("[1]", "[$, $]", 60, "$ in [$]"),
        doubled("[1]", "[$, $]", 60, "[$].indexOf($) == 0"),
        doubled("[1]", "[$, $]", 60, "[$, $].distinct().size() == 1"),
        doubled("[1]", "[$, $]", 60, "dyn($).flatten(100).size() > 1"),
        doubled("[1]", "[$, $]", 60, 'dyn("%s").format([$]) != ""'),
        doubled('{"a": 1}', '{"a": $, "b": $}', 60, "dyn($) == dyn($)"),
        doubled('"abcdefgh"', "$ + $", 60, "$.size() > 0"),
        doubled('"abcdefgh"', "[$, $].join()", 60, "$.size() > 0"),
        doubled('"abcdefgh"', 'dyn("%s%s").format([$, $])', 60, "$.size() > 0"),
        doubled('"aaaaaaaaaaaaaaaaaaaa"', '$.replace("a", $)', 30, "$.size() > 0"),
        "lists.range(9223372036854775807).all(x, x >= 0)",
        "lists.range(9223372036854775807).reverse()[0] > 0",
        "cel.bind(a, lists.range(1000).map(x, 'a'), lists.range(100000).all(x, a.isSorted()))",
    ],
    ids=range(17),
)
def test_expressions_that_upstream_cannot_finish_are_cancelled(expression: str) -> None:
    assert str(evaluate(expression).error) == CANCELLED


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "expression",
    [
        doubled("[1]", "$ + $", 60, "$.size() > 5 && $[123456789] == 1"),
        "cel.bind(a, lists.range(100000), lists.range(40000).all(x, (a + [x])[x] >= 0))",
        "".join(f"[1].all(x{i}, " for i in range(120)) + "true" + ")" * 120,
        "[" * 240 + "1" + "]" * 240 + " == " + "[" * 240 + "1" + "]" * 240,
        "!(" * 200 + "true" + ")" * 200,
        doubled("[1]", "[[[[[[[[$]]]]]]]]", 150, 'dyn($) == dyn($) && dyn("%s").format([$]) != ""'),
        " && ".join(["true"] * 2000),
        '"' + "a" * 5000 + '".matches("(a*)*b") == false',
    ],
    ids=range(8),
)
def test_deep_and_long_expressions_are_evaluated(expression: str) -> None:
    assert evaluate(expression).value is True
