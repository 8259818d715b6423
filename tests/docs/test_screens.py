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
    if missing := screens.clients_of(text):
        pytest.skip(f"{' and '.join(sorted(missing))} not there: `make clients` brings them")
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


def test_pieces_between_are_found_by_their_first_line() -> None:
    printed = screens.run("allot examples list")
    page = "\n".join(["```console", "$ allot examples list", printed[0], "…", printed[4], "old", "…", "old", "```\n"])
    anew = screens.page_anew(page).splitlines()
    assert anew[2:-1] == [printed[0], "…", printed[4], printed[5], "…", printed[-1]]
    gone = page.replace(printed[4], "no longer there")
    assert screens.page_anew(gone).splitlines()[2:-1] == printed, "shown in full, so that somebody looks"


def test_what_differs_by_chance_only_is_left_as_it_was() -> None:
    page = """```console
$ allot up --detach --ephemeral --fleet t4-4x-pcie
Ready in 7.5 s: https://127.0.0.1:1234
  fleet    t4-4x-pcie
  data     in memory only: lost when the lab stops
  kubectl  context 'allotment' in ~/.kube/config, now the current context
  log      ~/.local/state/allotment/default.log
allot down stops it.
$ allot status
NAME      URL                      CONTEXT     AGE    FLEET
default   https://127.0.0.1:1234   allotment   3d4h   t4-4x-pcie
```
"""
    assert screens.page_anew(page) == page
    changed = page.replace("'allotment'", "'other'")
    anew = screens.page_anew(changed)
    assert "context 'allotment' in" in anew
    assert "   3d4h   t4-4x-pcie" in anew, "what holds still stays"


def test_a_page_leaves_nothing_running() -> None:
    inside = screens.page_anew("```console\n$ allot up --detach --ephemeral\n$ allot status\n```\n")
    assert "allotment " in inside
    again = screens.page_anew("```console\n$ allot status\n```\n")
    assert "No lab is running." in again


def test_links_lead_to_a_heading() -> None:
    pages = {
        page.resolve(): page.read_text(encoding="utf-8")
        for page in [*screens.ROOT.glob("*.md"), *screens.ROOT.glob("docs/**/*.md")]
    }
    for page, text in pages.items():
        for target, anchor in screens.anchors(text):
            meant = (page.parent / target).resolve() if target else page
            assert anchor in screens.headings(pages[meant]), f"{page.name} links to {target}#{anchor}"
