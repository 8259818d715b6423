"""The rule pages are generated from the rules, and links lead to their sections."""

from __future__ import annotations

import re
from pathlib import Path

from allotment.tools.check.catalog import FAMILIES, all_rules, rules_by_code
from allotment.tools.check.reference import FOLDER, page_link, pages

ROOT = Path(__file__).parents[4]


def test_pages_are_up_to_date() -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / FOLDER).iterdir()}
    assert written == pages(), "out of date; `python -m tests.docs.screens reasons.md` regenerates them"


def test_every_link_has_a_section() -> None:
    for rule in all_rules():
        file, _, anchor = page_link(rule.code).removeprefix(f"{FOLDER}/").partition("#")
        titles = re.findall(r"^## (.*)$", pages()[file], re.MULTILINE)
        assert anchor in [re.sub(r"[^\w-]", "", title.lower().replace(" ", "-")) for title in titles]


def test_codes_and_names_are_unique_and_match_their_families() -> None:
    rules = all_rules()
    assert (
        len({rule.code for rule in rules}) == len({rule.name for rule in rules}) == len(rules) == len(rules_by_code())
    )
    for rule in rules:
        assert re.fullmatch(r"[SCVMP]\d\d\d", rule.code)
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
        assert FAMILIES[rule.code[0]][0] == rule.family
        assert not rules_by_code().keys() & {rule.name.upper()}


def test_unknown_code_has_no_link() -> None:
    assert page_link("S999") == ""
