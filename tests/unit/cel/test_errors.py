"""Error layout: dots, wide characters, tabs, several errors, limits."""

from __future__ import annotations

import pytest

from allotment.cel.errors import Issues


def rendered(source: str, *errors: tuple[int, str]) -> str:
    issues = Issues(source)
    for pos, message in errors:
        issues.report(pos, message)
    return issues.render()


@pytest.mark.parametrize(
    ("source", "pos", "text"),
    [
        ("a + b", 2, "ERROR: <input>:1:3: m\n | a + b\n | ..^"),
        ("a\nb + c", 4, "ERROR: <input>:2:3: m\n | b + c\n | ..^"),
        ("\ta\tb", 3, "ERROR: <input>:1:4: m\n |  a b\n | ...^"),
        ("'é😀' + 1", 5, "ERROR: <input>:1:6: m\n | 'é😀' + 1\n | .．．..^"),
        ("é", 0, "ERROR: <input>:1:1: m\n | é\n | ＾"),
        ("a", 1, "ERROR: <input>:1:2: m\n | a\n | .^"),
        ("a\n", 2, "ERROR: <input>:2:1: m\n | \n | ^"),
        ("a", -1, "ERROR: <input>:-1:0: m"),
        ("", 0, "ERROR: <input>:1:0: m"),
    ],
)
def test_error_blocks(source: str, pos: int, text: str) -> None:
    assert rendered(source, (pos, "m")) == text


def test_errors_are_ordered_by_position() -> None:
    text = rendered("a\nb", (2, "second"), (0, "first"), (2, "third"), (-1, "everywhere"))
    assert [line.rpartition(" ")[2] for line in text.split("\n") if "ERROR" in line] == [
        "everywhere", "first", "second", "third",
    ]  # fmt: skip


def test_more_than_a_hundred_errors_are_truncated() -> None:
    text = rendered("a" * 200, *((i, "m") for i in range(130)))
    assert text.count("ERROR") == 100
    assert text.endswith("\n30 more errors were truncated")


def test_very_long_lines_are_omitted() -> None:
    assert rendered("a" * 16_385, (3, "m")) == "ERROR: <input>:1:4: m"
    assert "\n" in rendered("a" * 16_384, (3, "m"))


def test_the_exception_contains_the_issues() -> None:
    issues = Issues("a +\n b")
    issues.report(5, "m")
    error = issues.error()
    assert error.kind == "invalid"
    assert [(i.line, i.column, i.message) for i in error.issues] == [(2, 1, "m")]
