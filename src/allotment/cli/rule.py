"""``allot rule``: the rules of ``allot check`` as a table, or one of them in full."""

from __future__ import annotations

import textwrap
from argparse import Namespace
from typing import Any

from allotment.cli.mistakes import FRAME_WIDTH, Mistake
from allotment.cli.screen import Screen, folded, open_screen
from allotment.fleet.errors import nearest
from allotment.model.formats import to_json
from allotment.tools.check.catalogue import catalogue
from allotment.tools.check.reference import address, fixes
from allotment.tools.check.rule import Rule
from allotment.tools.check.selecting import is_known, known_words, means


def run(arguments: Namespace) -> int:
    """Print the rules that are meant: one in full, several as a table."""
    screen = open_screen()
    word = arguments.rule or "all"
    if not is_known(word):
        raise Mistake(f"no rule is called {word!r}", nearest(word, known_words()) or "allot rule lists all of them")
    meant = [rule for rule in catalogue() if means(word, rule.code)]
    single = len(meant) == 1
    if arguments.output == "json":
        listed = [_data(rule) for rule in meant]
        screen.line(to_json(listed[0] if single else {"rules": listed}))
    elif single:
        _show(screen, meant[0])
    else:
        rows = [(rule.code, rule.name, rule.level, rule.fixable or "", rule.summary) for rule in meant]
        screen.table(("CODE", "NAME", "LEVEL", "FIX", "SUMMARY"), rows, cut=("SUMMARY",))
    return 0


def _show(screen: Screen, rule: Rule) -> None:
    for line in folded(f"{rule.code} {rule.name} ({rule.level}): {rule.summary}", screen.width):
        screen.line(screen.paint(line, "bold"))
    screen.line()
    for line in textwrap.wrap(rule.why, min(screen.width or FRAME_WIDTH, FRAME_WIDTH), break_on_hyphens=False):
        screen.line(line)
    for title, example, colour in (("Instead of", rule.bad, "red"), ("write", rule.good, "green")):
        screen.line()
        screen.line(f"{title}:")
        screen.line()
        for line in example.rstrip().splitlines():
            screen.line(screen.paint(f"  {line}", colour) if line else "")
    screen.line()
    for line in folded(f"Fix: {fixes(rule)}", screen.width):
        screen.line(line)
    if rule.see:
        screen.line(f"See: {rule.see}")


def _data(rule: Rule) -> dict[str, Any]:
    return {
        "code": rule.code, "name": rule.name, "family": rule.family, "level": rule.level, "summary": rule.summary,
        "why": rule.why, "bad": rule.bad, "good": rule.good, "fixable": rule.fixable, "see": rule.see,
        "url": address(rule.code),
    }  # fmt: skip
