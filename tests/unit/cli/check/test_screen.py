"""The text output at 80 columns and in a pipe."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from allotment.cli.check import command
from allotment.cli.output import console
from tests.unit.cli.check.conftest import Write
from tests.unit.cli.conftest import Allot

OLD = "apiVersion: v1\nkind: Thing\nmetadata:\n  name: old\n"
MANY = """\
# all at once
apiVersion: v1
kind: Thing
metadata:
  name: "old"
note: >-
  the first line of it, and then
  a gues that begins far to the right in a line which does not fit into 80 columns
spec: {}
"""


def test_all_findings_at_80_columns(allot: Allot, write: Write, at_80: Callable[[], None]) -> None:
    write({"a.yaml": OLD, "b.yaml": MANY})
    at_80()
    ran = allot("check")
    assert ran.err == ""
    assert ran.code == 1
    assert (
        ran.out
        == """\
a.yaml:4:9 S191 [*] `old` is an old name
    4 |   name: old
      |         ^^^
  fix: call it new

b.yaml:3:1 M491 note: nothing is specified
    3 | kind: Thing
      | ^^^^

b.yaml:5:9 S191 [*] `old` is an old name
    5 |   name: "old"
      |         ^^^^^
  fix: call it new

b.yaml:8:5 V391 [?] warning: unknown word "gues". Did you mean "guess"?
    8 |   a gues that begins far to the right in a line which does not fit in…
      |     ^^^^
  help: words have a meaning that others must know, too, or they are of no use
    to readers
  unsafe fix: write guess, which is nearest

Found 2 errors, 1 warning and 1 note in 2 files. [*] 2 fixable with --fix, [?] 1
  more with --fix --unsafe-fixes.
next: allot check --fix
"""
    )
    assert max(map(len, ran.out.splitlines())) <= 80


def test_concise_output_has_one_line_per_finding(allot: Allot, write: Write) -> None:
    write({"b.yaml": MANY})
    assert (
        allot("check", "b.yaml", "-o", "concise").out
        == """\
b.yaml:3:1 M491 note: nothing is specified
b.yaml:5:9 S191 [*] `old` is an old name
b.yaml:8:5 V391 [?] warning: unknown word "gues". Did you mean "guess"?
Found 1 error, 1 warning and 1 note in 1 file. [*] 1 fixable with --fix, [?] 1 more with --fix --unsafe-fixes.
"""
    )


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"a.yaml": "apiVersion: v1\nkind: Thing\n"}, "The object in 1 file is fine.\n"),
        (
            {
                "a.yaml": "apiVersion: v1\nkind: A\n---\napiVersion: v1\nkind: B\n",
                "b.json": '{"apiVersion":"v1","kind":"C"}',
            },
            "All 3 objects in 2 files are fine.\n",
        ),
        ({"ci.yaml": "on: push\n"}, "Nothing to check: no Kubernetes objects found.\n"),
    ],
)  # fmt: skip
def test_success_is_one_sentence(allot: Allot, write: Write, files: dict[str, str], sentence: str) -> None:
    write(files)
    assert allot("check") == (0, sentence, "")


def test_colours_are_legible_on_light_and_dark(allot: Allot, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write({"b.yaml": MANY})
    plain = allot("check", "b.yaml").out
    opened = console.open_screen
    monkeypatch.setattr(command, "open_screen", lambda: console.Screen(opened().out, None, colour=True))
    painted = allot("check", "b.yaml").out
    assert re.sub(r"\x1b\[\d+m", "", painted) == plain
    used = set(re.findall(r"\x1b\[(\d+)m", painted))
    assert used == {"0", "1", "2", "31", "32", "35", "36"}, "no yellow, no white, nothing bright"


def test_terminal_output_is_truncated_and_pipe_output_complete(
    allot: Allot, write: Write, at_80: Callable[[], None]
) -> None:
    write({"a.yaml": "---\n".join([OLD] * 60)})
    assert allot("check").out.count("S191") == 60
    at_80()
    shown = allot("check").out
    assert shown.count("S191") == 50
    assert "And 10 more: -o concise lists all of them, one per line.\n" in shown
    assert "Found 60 errors in 1 file. [*] 60 fixable with --fix.\n" in shown


def test_a_very_long_line_is_shown_around_the_finding(allot: Allot, write: Write, at_80: Callable[[], None]) -> None:
    write({"a.yaml": f"apiVersion: v1\nkind: Thing\nnote: '{'x' * 500_000} gues {'y' * 500_000}'\n"})
    at_80()
    ran = allot("check")
    line, marks = (text for text in ran.out.splitlines() if " | " in text)
    assert len(line) <= 80
    assert line[marks.index("^") :].startswith("gues ")
    assert marks.count("^") == 4


def test_ideographs_take_two_columns(allot: Allot, write: Write) -> None:
    write({"a.yaml": "apiVersion: v1\nkind: Thing\nnote: '日本 gues'\n"})
    line, marks = allot("check").out.splitlines()[1:3]
    assert line == "    3 | note: '日本 gues'"
    assert marks == "      |             ^^^^"


def test_compiler_messages_keep_their_layout(allot: Allot, write: Write) -> None:
    write({"a.yaml": "a: [\n"})
    assert allot("check", "a.yaml").out.startswith("a.yaml:2:1 S100 invalid YAML: while parsing a flow node")
