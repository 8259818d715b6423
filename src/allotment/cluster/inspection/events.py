"""The events about an object."""

from __future__ import annotations

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
    return sorted(found, key=lambda event: last_time(event) or "")


def last_time(event: Tree) -> str | None:
    """Return when an event occurred last."""
    series = event.get("series") or {}
    return series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
