"""Describes the events of an object."""

from __future__ import annotations

from allotment.cli.describe.page import NONE, UNKNOWN, Page
from allotment.cluster.inspection.events import last_time
from allotment.model.trees import Tree


def add_events(page: Page, events: list[Tree] | None) -> None:
    """Add the events; further lines of a message are indented below it."""
    if not events:
        page.line(0, "Events:", NONE if events is not None else UNKNOWN)
        return
    page.line(0, "Events:")
    page.line(1, "Type", "Reason", "Age", "From", "Message")
    page.line(1, "----", "------", "----", "----", "-------")
    for event in events:
        first, *rest = str(event.get("message") or "").strip().split("\n")
        page.line(1, event.get("type") or "", event.get("reason") or "", _age(page, event), _from(event), first)
        for line in rest:
            page.line(3, line)


def _age(page: Page, event: Tree) -> str:
    count = (event.get("series") or {}).get("count") or event.get("count") or 1
    age = page.age(last_time(event))
    first = event.get("firstTimestamp") or event.get("eventTime")
    return f"{age} (x{count} over {page.age(first)})" if count > 1 else age


def _from(event: Tree) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    return ", ".join(part for part in (component, source.get("host") or "") if part)
