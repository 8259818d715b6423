"""The line of a file with a range underlined."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from allotment.cli.output.code_frame import cells, frame


def shown(text: str, column: int, end: int | None = None, width: int = 80) -> list[str]:
    framed = frame([text], 1, column, end, width)
    return list(framed.lines) if framed else []


def test_a_range_is_underlined() -> None:
    assert shown("name: old", 7, 10) == ["    1 | name: old", "      |       ^^^"]
    assert shown("name: old", 7) == ["    1 | name: old", "      |       ^"]
    assert shown("name: old", 7, 99) == ["    1 | name: old", "      |       ^^^"]


def test_long_line_is_truncated_on_both_sides() -> None:
    line, marks = shown(f"{'a' * 100} here {'b' * 100}", 102, 106, 60)
    assert line.startswith("    1 | …aa")
    assert line.endswith("bb…")
    assert line[marks.index("^") : marks.rindex("^") + 1] == "here"
    assert len(line) <= 60


def test_indentation_is_removed_first() -> None:
    assert shown(f"{' ' * 20}{'x' * 40} y", 62, 63, 60) == [f"    1 | …{'x' * 40} y", f"      | {' ' * 42}^"]


def test_wide_and_zero_width_characters_are_measured() -> None:
    assert [cells(text) for text in ("ab", "日本", "e\u0301")] == [2, 4, 1]
    assert shown("日本: x", 5)[1] == "      |       ^"


def test_blank_and_missing_lines_have_no_frame() -> None:
    assert frame(["", "x"], 1, 1, None, 80) is None
    assert frame(["x"], 2, 1, None, 80) is None


@given(st.text(), st.integers(1, 400), st.integers(0, 400), st.integers(20, 200))
def test_any_position_can_be_shown(text: str, column: int, length: int, width: int) -> None:
    framed = frame(text.splitlines(), 1, column, column + length, width)
    if framed is not None:
        assert framed.marks.endswith("^")
        assert "\n" not in framed.text
        assert len(framed.text) <= max(width - 10, 10)
