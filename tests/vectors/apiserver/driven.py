"""What was done beside a recorded watch, where the watch alone cannot tell.

Some watches were recorded while something was written. A stream mostly tells what: an ADDED is a create, a MODIFIED an
update, a DELETED a delete. The writes of a watch with a selector are told here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class Act(NamedTuple):
    """A request that drives a watch."""

    method: str
    path: str
    body: Any = None


_W2 = "/api/v1/namespaces/watch/configmaps/w2"

ACTS: Mapping[tuple[str, str], tuple[Act, ...]] = {
    ("24-watch", "label selector: object leaving selector is DELETED"): (
        Act("PATCH", _W2, {"metadata": {"labels": {"app": "q"}}}),
        Act("PATCH", _W2, {"metadata": {"labels": {"app": "z"}}}),
    ),
    ("24-watch", "all-namespaces deletecollection"): (Act("DELETE", "/api/v1/namespaces/watch/configmaps"),),
}

_SERVERS_OWN = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink")


def acts(row: dict[str, Any]) -> Iterator[Act]:
    """The writes that make a recorded stream."""
    known = ACTS.get((row["scenario"], row["name"]))
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
            yield Act("POST", collection, body)
        elif event["type"] == "MODIFIED":
            yield Act("PUT", f"{collection}/{name}", body)
        elif event["type"] == "DELETED":
            yield Act("DELETE", f"{collection}/{name}")
