"""``allot rule``: all rules, some, or one in full."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

from allotment.cli.output.console import Screen
from allotment.cli.rule import _show
from allotment.tools.check.rule import Rule
from tests.unit.cli.conftest import Allot


def test_all_rules_are_listed_by_family(allot: Allot) -> None:
    assert (
        allot("rule").out
        == """\
Shape and version: Does a cluster of this release accept the object?
S100  error         The file or document is neither valid YAML nor valid JSON, or is not an object
S116  note          An ignore comment suppresses no finding
S191  error    [*]  An old name
S192  error    [*]  Not nested

Vocabulary: Does a driver publish, install or understand the name?
V391  warning  [?]  No word

Meaning: Does the object do what its author intends?
M491  note          Nothing in it

[*] fixed by --fix, [?] by --fix --unsafe-fixes. allot rule CODE explains a rule.
"""
    )


@pytest.mark.parametrize("word", ["M491", "empty", "m491", "M", "meaning"])
def test_a_single_rule_is_printed_in_full(allot: Allot, at_80: Callable[[], None], word: str) -> None:
    at_80()
    assert allot("rule", word) == (
        0,
        """\
M491 empty (note): Nothing in it.

A toy.

Instead of:

  spec: {}

write:

  spec: {}

Fix: none, because the correction depends on the author's intent.
See: https://example.com
""",
        "",
    )


def test_differences_are_coloured(
    allot: Allot, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = "a: 1\nb: 2\n", "a: 1\nb: 3\nc: 4\n"
    rule = Rule("S191", "old-name", "shape", "error", "An old name.", "A toy.", bad, good, lambda _: iter(()), "safe")
    _show(Screen(sys.stdout, 80, colour=True), rule)
    shown = capsys.readouterr().out
    assert "  a: 1\n\x1b[31m  b: 2\x1b[0m\n" in shown
    assert "  a: 1\n\x1b[32m  b: 3\x1b[0m\n\x1b[32m  c: 4\x1b[0m\n" in shown


def test_rules_are_available_as_json(allot: Allot) -> None:
    assert json.loads(allot("rule", "old-name", "-o", "json").out)["code"] == "S191"
    listed = json.loads(allot("rule", "-o", "json").out)["rules"]
    assert [rule["code"] for rule in listed] == ["S100", "S116", "S191", "S192", "V391", "M491"]


def test_unknown_rule_is_rejected(allot: Allot) -> None:
    ran = allot("rule", "emty")
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean empty?" in ran.err
