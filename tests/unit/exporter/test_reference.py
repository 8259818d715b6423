"""The generated page of metrics."""

from __future__ import annotations

from allotment.exporter.alerts import ALERTS, rules
from allotment.exporter.definitions import COMPONENTS, METRICS
from allotment.exporter.reference import MARK, PAGE, page
from tests.docs.screens import headings
from tests.monitoring.conftest import ROOT


def test_the_page_is_up_to_date() -> None:
    """`python -m tests.docs.screens metrics.md` updates the page."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert MARK in text
    assert page(text) == text


def test_the_page_contains_every_metric_and_alert() -> None:
    text = page("")
    for metric in (*METRICS.values(), *COMPONENTS):
        assert f"`{metric.name}`" in text
    assert {alert.name.lower() for alerts in ALERTS.values() for alert in alerts} <= headings(text)


def test_runbook_links_match_headings() -> None:
    found = headings(page(""))
    for group in rules()["groups"]:
        for rule in group["rules"]:
            address, _, anchor = rule["annotations"]["runbook_url"].partition("#")
            assert (address, anchor in found) == (PAGE, True)
