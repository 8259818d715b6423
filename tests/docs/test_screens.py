"""What the documentation shows is what the commands print."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import screens

HINT = "out of date; `python -m tests.docs.screens` writes it anew (then look at the difference)"


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("page", screens.PAGES, ids=lambda page: page.name)
def test_screens_are_what_the_commands_print(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "```console\n$ " in text
    assert screens.page_anew(text) == text, f"{page.name} is {HINT}"


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*screens.ROOT.glob("*.md"), *screens.ROOT.glob("docs/*.md")]
    for page in pages:
        for target in screens.links(page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_a_changed_output_is_noticed_and_lines_left_out_stay_so(tmp_path: Path) -> None:
    page = "```console\n$ allot examples list\nold\n…\nold\n```\n"
    anew = screens.page_anew(page).splitlines()
    printed = screens.run("allot examples list")
    assert anew == ["```console", "$ allot examples list", printed[0], "…", printed[-1], "```"]
