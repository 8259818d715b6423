"""``scripts/wrap_docs`` changes nothing but the line breaks of prose."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.language.word_list import ROOT

SCRIPT = ROOT / "scripts" / "wrap_docs"
PROGRAM = runpy.run_path(str(SCRIPT))
wrap, PAGES = PROGRAM["wrap"], PROGRAM["pages"]()
LONG = "word " * 30
FIRST, SECOND = ("word " * 20).strip(), ("word " * 10).strip()


def _run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *arguments], check=False, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{LONG.strip()}\n", f"{FIRST}\n{SECOND}\n"),
        ("short\nlines\nare joined\n", "short lines are joined\n"),
        (f"- {LONG.strip()}\n- next\n", f"- {FIRST[:-5]}\n  word {SECOND}\n- next\n"),
        (f"10. {LONG.strip()}\n", f"10. {FIRST[:-5]}\n    word {SECOND}\n"),
        (f"- one\n\n  {LONG.strip()}\n", f"- one\n\n  {FIRST[:-5]}\n  word {SECOND}\n"),
        ("- one\n    continued\n", "- one continued\n"),
    ],
)
def test_paragraphs_and_items_are_filled(before: str, after: str) -> None:
    assert wrap(before) == after
    assert wrap(after) == after


@pytest.mark.parametrize(
    "page",
    [
        f"```console\n{LONG}\n```\n",
        f"~~~\n```\n{LONG}\n~~~\n",
        f"    {LONG}\n",
        f"# {LONG}\n",
        f"| {LONG} |\n|---|\n| {LONG} |\n",
        f"> {LONG}\n",
        f"<!-- {LONG} -->\n",
        f"[link]: https://example.com/{'x' * 100}\n",
        f"<!-- values: generated from values.yaml -->\n{LONG}\n<!-- /values -->\n",
        f"<!-- What follows is made from a table. -->\n\n{LONG}\n",
        f"{'x' * 120}\n",
        "A hard break  \nis kept.\n",
    ],
)
def test_everything_else_is_kept(page: str) -> None:
    assert wrap(page) == page


def test_text_after_a_generated_part_is_filled() -> None:
    assert (
        wrap("<!-- made from x -->\na\nb\n<!-- /x -->\n\na\nb\n") == "<!-- made from x -->\na\nb\n<!-- /x -->\n\na b\n"
    )


def test_code_spans_are_not_cut() -> None:
    before = f"{'x' * 90} `a command  with blanks` and ``one ` more``.\n"
    assert wrap(before) == f"{'x' * 90}\n`a command  with blanks` and ``one ` more``.\n"


@pytest.mark.parametrize("mark", ["-", "+", "1.", "2)", "#", ">", "|", "```", "<b>", "="])
def test_no_line_begins_with_what_would_be_a_mark(mark: str) -> None:
    assert wrap(f"{'x' * 100} {mark} y\n") == f"{'x' * 100} {mark}\ny\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_of_the_project_keep_their_words(page: Path) -> None:
    before = page.read_text(encoding="utf-8")
    after = wrap(before)
    assert after.split() == before.split()
    assert wrap(after) == after
    for start in ("|", "#", "```", "<!--"):
        marked = [[line for line in text.splitlines() if line.startswith(start)] for text in (before, after)]
        assert marked[0] == marked[1]


def test_check_names_lines_that_can_be_wrapped(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"fine\n\n{LONG}\n{'x' * 120}\n\n```\n{LONG}\n```\n")
    checked = _run("--check", page)
    assert (checked.returncode, checked.stdout) == (1, f"{page}:3: line over 100 columns: run scripts/wrap_docs\n")
    assert _run(page).returncode == 0
    checked = _run("--check", page)
    assert (checked.returncode, checked.stdout) == (0, "")
