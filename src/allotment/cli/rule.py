"""``allot rule``: lists the rules of ``allot check``, or explains one."""

from __future__ import annotations

import textwrap
from argparse import Namespace
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

from allotment.cli.output.console import Screen, folded, open_screen
from allotment.cli.output.errors import FRAME_WIDTH
from allotment.reference.check_rules import matching_rules, rule_data
from allotment.tools.check.catalog import FAMILIES
from allotment.tools.check.reference import fix_availability, headline
from allotment.tools.check.rule import Rule

_MARKS: Final = {"": "", "safe": "[*]", "unsafe": "[?]", "safe or unsafe": "[*]"}
#: Width of code, level and fix marker before a summary.
_MARGIN: Final = 20


def run(arguments: Namespace) -> int:
    """Print the selected rules: a single one in full, several as a table."""
    screen = open_screen()
    rules = matching_rules(arguments.rule or "all")
    single = len(rules) == 1
    if arguments.output == "json":
        listed = [rule_data(rule) for rule in rules]
        screen.data(listed[0] if single else {"rules": listed}, "json")
    elif single:
        _show(screen, rules[0])
    else:
        _list(screen, rules)
    return 0


def _list(screen: Screen, rules: Sequence[Rule]) -> None:
    """Print rules by family, with summaries that are folded, not truncated."""
    for family, title, question in FAMILIES.values():
        of_family = [rule for rule in rules if rule.family == family]
        if of_family:
            screen.line(screen.paint(f"{title}: {question}", "bold"))
        for rule in of_family:
            mark = _MARKS[rule.fixable]
            first, *rest = _wrapped(headline(rule), (screen.width or FRAME_WIDTH) - _MARGIN)
            screen.line(f"{rule.code}  {rule.level:<7}  {mark:<3}  {first}")
            for line in rest:
                screen.line(f"{' ' * _MARGIN}{line}")
        if of_family:
            screen.line()
    screen.line("[*] fixed by --fix, [?] by --fix --unsafe-fixes. allot rule CODE explains a rule.")


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _show(screen: Screen, rule: Rule) -> None:
    for line in folded(f"{rule.code} {rule.name} ({rule.level}): {headline(rule)}.", screen.width):
        screen.line(screen.paint(line, "bold"))
    screen.line()
    for line in _wrapped(rule.why, min(screen.width or FRAME_WIDTH, FRAME_WIDTH)):
        screen.line(line)
    bad, good = rule.bad.rstrip().splitlines(), rule.good.rstrip().splitlines()
    for title, lines, other_lines, colour in (("Instead of", bad, good, "red"), ("write", good, bad, "green")):
        screen.line()
        screen.line(f"{title}:")
        screen.line()
        same = _same(lines, other_lines)
        for number, line in enumerate(lines):
            shown = f"  {line}" if line else ""
            screen.line(shown if number in same else screen.paint(shown, colour))
    screen.line()
    for line in folded(f"Fix: {fix_availability(rule)}", screen.width):
        screen.line(line)
    if rule.see:
        screen.line(f"See: {rule.see}")


def _same(lines: list[str], other: list[str]) -> frozenset[int]:
    """Return the numbers of the lines that both texts contain."""
    blocks = SequenceMatcher(None, lines, other, autojunk=False).get_matching_blocks()
    return frozenset(number for block in blocks for number in range(block.a, block.a + block.size))
