"""Diffs are valid input for ``patch`` in a pipe, and readable on a terminal."""

from __future__ import annotations

from io import StringIO

from allotment.cli.output.console import Screen
from allotment.cli.output.diffs import show_diff

BEFORE = "a: 1 # \x1b[2J\x0c\x85\u202e\r\nb: 2\r\n"


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def _shown(out: StringIO, colour: bool = False) -> str:
    show_diff(Screen(out, 80, colour), {"f": BEFORE}, {"f": BEFORE.replace("2\r", "3\r")})
    return out.getvalue()


def test_a_pipe_gets_every_byte() -> None:
    assert _shown(StringIO()) == ("--- f\n+++ f\n@@ -1,2 +1,2 @@\n a: 1 # \x1b[2J\x0c\x85\u202e\r\n-b: 2\r\n+b: 3\r\n")


def test_control_characters_are_not_sent_to_a_terminal() -> None:
    assert _shown(_Terminal()) == "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a: 1 # �[2J���\n-b: 2\n+b: 3\n"
    assert "\x1b[31m-b: 2\x1b[0m\n" in _shown(_Terminal(), colour=True)
