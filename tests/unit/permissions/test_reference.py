"""The reference page is generated from the table."""

from __future__ import annotations

from pathlib import Path

from allotment.permissions import reference
from allotment.permissions.components import COMPONENTS

PAGE = Path(__file__).parents[3] / reference.PAGE


def test_the_page_is_generated_from_the_components() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert reference.page(text) == text, "`python -m tests.docs.screens permissions.md` regenerates it"


def test_every_component_and_every_purpose_is_on_the_page() -> None:
    text = reference.page("")
    for component in COMPONENTS.values():
        assert f"\n## {component.name}\n" in text
        assert all(rule.why in text for rule in (*component.cluster_wide, *component.in_namespace))
    assert "| update | `resourceclaims.resource.k8s.io/binding` |" in text
