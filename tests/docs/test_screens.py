"""The output in the documentation is that of the commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import screens

HINT = "out of date; `python -m tests.docs.screens` updates it (then review the difference)"


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("page", screens.PAGES, ids=lambda page: page.relative_to(screens.ROOT).as_posix())
def test_pages_show_the_output_of_their_commands(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if missing := screens.clients_of(text):
        pytest.skip(f"{' and '.join(sorted(missing))} not found: `make clients` installs them")
    assert "```console\n$ " in text
    assert screens.updated_page(text) == text, f"{page.name} is {HINT}"


def test_pages_that_are_not_run_exist() -> None:
    assert [name for name in screens.NOT_RUN if not (screens.ROOT / name).is_file()] == []


def test_a_changed_output_is_noticed_and_omitted_lines_stay_omitted(tmp_path: Path) -> None:
    page = "```console\n$ allot examples list\nold\n…\nold\n```\n"
    updated = screens.updated_page(page).splitlines()
    printed = screens.run("allot examples list")
    assert updated == ["```console", "$ allot examples list", printed[0], "…", printed[-1], "```"]


def test_excerpts_are_found_by_their_first_line() -> None:
    printed = screens.run("allot examples list")
    page = "\n".join(["```console", "$ allot examples list", printed[0], "…", printed[4], "old", "…", "old", "```\n"])
    updated = screens.updated_page(page).splitlines()
    assert updated[2:-1] == [printed[0], "…", printed[4], printed[5], "…", printed[-1]]
    gone = page.replace(printed[4], "no longer printed")
    assert screens.updated_page(gone).splitlines()[2:-1] == printed, "shown in full, for a review"


def test_output_that_differs_only_in_variable_parts_is_unchanged() -> None:
    page = """```console
$ allot up --detach --ephemeral --fleet t4-4x-pcie
Ready in 7.5 s: https://127.0.0.1:1234
  fleet    t4-4x-pcie
  data     only in memory: lost when the lab stops
  kubectl  context 'allotment' in ~/.kube/config, now the current context
  log      ~/.local/state/allotment/default.log
To stop it: allot down
$ allot status
NAME      URL                      CONTEXT     AGE    FLEET
default   https://127.0.0.1:1234   allotment   3d4h   t4-4x-pcie
```
"""
    assert screens.updated_page(page) == page
    changed = page.replace("'allotment'", "'other'")
    updated = screens.updated_page(changed)
    assert "context 'allotment' in" in updated
    assert "   3d4h   t4-4x-pcie" in updated, "unchanged output stays"


def test_a_page_leaves_nothing_running() -> None:
    inside = screens.updated_page("```console\n$ allot up --detach --ephemeral\n$ allot status\n```\n")
    assert "allotment " in inside
    again = screens.updated_page("```console\n$ allot status\n```\n")
    assert "No lab is running." in again
