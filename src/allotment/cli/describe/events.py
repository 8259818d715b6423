"""Describes the events of an object."""

from __future__ import annotations

from allotment.cli.describe.page import NONE, UNKNOWN, Page
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import EVENTS
from allotment.model.trees import Tree


async def events_of(client: Client, tree: Tree) -> list[Tree] | None:
    """Return the events of an object, the oldest first, or None if reading them is forbidden."""
    metadata, kind = tree["metadata"], tree.get("kind", "")
    wanted = {"name": metadata["name"], "kind": kind}
    # Kubelets set the uid of a node to its name.
    wanted |= {"namespace": metadata.get("namespace", ""), "uid": metadata.get("uid", "")} if kind != "Node" else {}
    fields = ",".join(f"involvedObject.{key}={value}" for key, value in wanted.items() if value)
    try:
        found = (await client.list(EVENTS, metadata.get("namespace", ""), fields=fields)).items
    except StatusError:
        return None
    return sorted(found, key=lambda event: _last(event) or "")


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


def _last(event: Tree) -> str | None:
    series = event.get("series") or {}
    return series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")


def _age(page: Page, event: Tree) -> str:
    count = (event.get("series") or {}).get("count") or event.get("count") or 1
    age = page.age(_last(event))
    first = event.get("firstTimestamp") or event.get("eventTime")
    return f"{age} (x{count} over {page.age(first)})" if count > 1 else age


def _from(event: Tree) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    return ", ".join(part for part in (component, source.get("host") or "") if part)
