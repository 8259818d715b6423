"""The page is the table."""

from __future__ import annotations

from pathlib import Path

from allotment.tools.permissions import reference
from allotment.tools.permissions.components import COMPONENTS

PAGE = Path(__file__).parents[4] / reference.PAGE


def test_the_page_says_what_the_table_says() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert reference.page(text) == text, "`python -m tests.docs.screens permissions.md` writes it anew"


def test_every_part_has_its_place_and_every_rule_its_reason() -> None:
    text = reference.page("")
    for part in COMPONENTS.values():
        assert f"\n## {part.name}\n" in text
        assert all(rule.why in text for rule in (*part.cluster_wide, *part.in_namespace))
    assert "| update | `resourceclaims.resource.k8s.io/binding` |" in text
