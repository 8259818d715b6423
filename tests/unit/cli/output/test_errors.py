"""Findings have position, code, message, source line and help."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from allotment.cli.output.errors import MOST_SHOWN, describe, finding
from allotment.errors import InvalidManifests
from allotment.model.problems import InputProblem, Position


def problem(line: int = 2, column: int = 5, message: str = "bad", hint: str = "") -> InputProblem:
    return InputProblem(code="wrong", message=message, position=Position("a.yaml", line, column), hint=hint)


def test_a_finding_shows_the_line_with_a_caret() -> None:
    assert list(finding(problem(hint="do this"), "one\n  two\n")) == [
        "a.yaml:2:5: wrong: bad",
        "    2 |   two",
        "      |     ^",
        "  do this",
    ]


def test_lines_of_a_long_message_are_indented() -> None:
    assert list(finding(problem(message="first\nsecond"), None)) == ["a.yaml:2:5: wrong: first", "    second"]


def test_a_very_long_line_is_shown_around_the_position() -> None:
    lines = list(finding(problem(1, 5000), "x" * 10_000))
    assert max(map(len, lines)) <= 120
    assert lines[2].endswith("^")


@given(st.text(), st.integers(1, 20), st.integers(1, 300))
def test_any_source_and_position_can_be_shown(source: str, line: int, column: int) -> None:
    shown = list(finding(problem(line, column), source))
    assert shown[0] == f"a.yaml:{line}:{column}: wrong: bad"
    assert all("\n" not in part for part in shown)


def test_findings_are_sorted_counted_and_limited() -> None:
    error = InvalidManifests([problem(n) for n in range(200, 0, -1)], lambda _: None)
    description = describe(error)
    assert description is not None
    assert description.lines[0].startswith("a.yaml:1:5:")
    assert len(description.lines) == MOST_SHOWN + 2
    assert description.lines[-2:] == (f"and {200 - MOST_SHOWN} more", "Found 200 errors.")
    assert len(description.data["problems"]) == 200


def test_internal_errors_are_not_described() -> None:
    assert describe(KeyError("x")) is None
    assert describe(OSError("no file name")) is None
