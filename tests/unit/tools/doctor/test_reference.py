"""The page of checks is made from them."""

from __future__ import annotations

from pathlib import Path

from allotment.tools.doctor.checks import CHECKS
from allotment.tools.doctor.reference import MARK, PAGE, page

FILE = Path(__file__).parents[4] / PAGE


def test_the_page_is_generated_from_the_checks() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert text == page(text), "out of date; `python -m tests.docs.screens doctor.md` regenerates it"


def test_it_has_a_row_for_each_check() -> None:
    rows = FILE.read_text(encoding="utf-8").partition(MARK)[2]
    assert [code for code in (check.code for check in CHECKS) if f"| {code} |" not in rows] == []
