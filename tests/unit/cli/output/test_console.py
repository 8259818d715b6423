"""Tables are aligned, truncated on a terminal, and complete in a pipe."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cli.output.console import Screen, called, from_home, shorten, table

CELLS = st.text(st.characters(categories=["Lu", "Ll", "Nd"]), max_size=30)


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=5), st.integers(40, 120))
def test_no_line_is_wider_than_the_terminal(rows: list[list[str]], width: int) -> None:
    assert all(len(line) <= width for line in table(["A", "B", "C"], rows, width))


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), max_size=5))
def test_without_a_terminal_nothing_is_truncated(rows: list[list[str]]) -> None:
    lines = table(["A", "B"], rows, None)
    assert all(cell in line for row, line in zip(rows, lines[1:], strict=True) for cell in row)


def test_columns_align_and_empty_cells_contain_none() -> None:
    assert table(["NODE", "POD"], [["a-long-name", ""], ["b", "p"]], None) == [
        "NODE          POD",
        "a-long-name   <none>",
        "b             p",
    ]


def test_the_widest_cells_are_shortened_first() -> None:
    lines = table(["ID", "TITLE"], [["12345678", "x" * 100]], 30)
    assert lines[1] == "12345678   " + "x" * 18 + "…"
    assert shorten("abc", 3) == "abc"
    assert shorten("abcd", 3) == "ab…"


def test_the_last_of_several_words_is_kept() -> None:
    rows = [["dgx", "A100-SXM4-40GB 1g.5gb"], ["dgx", "A100-SXM4-40GB 2g.10gb"]]
    shown = table(["NODE", "KIND"], [*rows, ["x" * 20, ""]], 40, cut=["KIND"])
    assert [line[23:] for line in shown] == ["KIND", "A100-SXM4… 1g.5gb", "A100-SXM… 2g.10gb", "<none>"]


def test_cells_are_truncated_only_if_it_helps() -> None:
    rows = [["n" * 40, "gpu-0-mig-1g5gb-19-0"]]
    assert table(["NODE", "DEVICES"], rows, 40, cut=["DEVICES"]) == table(["NODE", "DEVICES"], rows, None)


def test_colour_only_if_enabled() -> None:
    assert Screen(io.StringIO(), None, False).paint("fits", "green") == "fits"
    assert Screen(io.StringIO(), 80, True).paint("fits", "green") == "\x1b[32mfits\x1b[0m"


def test_control_characters_of_objects_are_replaced() -> None:
    out = io.StringIO()
    screen = Screen(out, None, False)
    screen.line("web: \x1b]0;title\x07\x1b[2J\x9b1A\r\u202eok\n  日本 \t\x1b[31mred")
    assert out.getvalue() == "web: �]0;title��[2J�1A��ok\n  日本 \t�red\n"
    out = io.StringIO()
    painted = Screen(out, 80, True)
    painted.line(painted.paint("fits", "green") + "\x1b[2J")
    assert out.getvalue() == "\x1b[32mfits\x1b[0m�[2J\n"


def test_a_cell_is_one_line() -> None:
    assert table(["KIND", "GPUS"], [["Tesla\nT4\tx", "8"]], None) == ["KIND         GPUS", "Tesla T4 x   8"]


def test_paths_in_the_home_directory_begin_with_a_tilde(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert from_home(tmp_path / "labs" / "one") == "~/labs/one"
    assert from_home(f"{tmp_path}2/labs") == f"{tmp_path}2/labs"


def test_a_command_outside_the_path_is_named_with_its_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", [".venv/bin/allot", "demo"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert called() == ".venv/bin/allot"
    (tmp_path / "allot").touch(mode=0o755)
    assert called() == "allot"
    monkeypatch.setattr(sys, "argv", ["main.py", "demo"])
    monkeypatch.setenv("PATH", "")
    assert called() == "allot"
