"""The writes during a recorded watch, where the watch alone does not show them.

Some watches were recorded while objects were written. A stream mostly shows the write: an ADDED is a create, a MODIFIED
an update, a DELETED a delete. The writes of a watch with a selector are listed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class Write(NamedTuple):
    """A request that causes events of a watch."""

    method: str
    path: str
    body: Any = None


_W2 = "/api/v1/namespaces/watch/configmaps/w2"

WRITES: Mapping[tuple[str, str], tuple[Write, ...]] = {
    ("24-watch", "label selector: object leaving selector is DELETED"): (
        Write("PATCH", _W2, {"metadata": {"labels": {"app": "q"}}}),
        Write("PATCH", _W2, {"metadata": {"labels": {"app": "z"}}}),
    ),
    ("24-watch", "all-namespaces deletecollection"): (Write("DELETE", "/api/v1/namespaces/watch/configmaps"),),
}

_SERVERS_OWN = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink")


def writes(row: dict[str, Any]) -> Iterator[Write]:
    """The writes that lead to a recorded stream."""
    known = WRITES.get((row["scenario"], row["name"]))
    if known is not None:
        yield from known
        return
    collection = row["request"]["path"].partition("?")[0]
    for event in row["response"]["stream"]:
        tree = event["object"]
        name = tree["metadata"].get("name")
        meta = {key: value for key, value in tree["metadata"].items() if key not in _SERVERS_OWN}
        body = {**tree, "metadata": meta}
        body.pop("status", None)
        if event["type"] == "ADDED":
            yield Write("POST", collection, body)
        elif event["type"] == "MODIFIED":
            yield Write("PUT", f"{collection}/{name}", body)
        elif event["type"] == "DELETED":
            yield Write("DELETE", f"{collection}/{name}")
