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


def writes(row: dict[str, Any], present: int = 0) -> Iterator[Write]:
    """The writes that lead to a recorded stream; its first ``present`` events show objects that exist already."""
    known = WRITES.get((row["scenario"], row["name"]))
    if known is not None:
        yield from known
        return
    path = row["request"]["path"].partition("?")[0]
    before: dict[str, Any] = {}
    for index, event in enumerate(row["response"]["stream"]):
        if event.get("type") not in ("ADDED", "MODIFIED", "DELETED"):
            continue
        tree = event["object"]
        name = tree["metadata"].get("name")
        earlier, before[name] = before.get(name), tree
        if index < present:
            continue
        meta = {key: value for key, value in tree["metadata"].items() if key not in _SERVERS_OWN}
        body = {**tree, "metadata": meta}
        collection = _collection(path, meta.get("namespace", ""))
        if event["type"] == "MODIFIED" and earlier is not None and _only_status_differs(earlier, tree):
            yield Write("PUT", f"{collection}/{name}/status", body)
            continue
        body.pop("status", None)
        if event["type"] == "ADDED":
            yield Write("POST", collection, body)
        elif event["type"] == "MODIFIED":
            yield Write("PUT", f"{collection}/{name}", body)
        else:
            yield Write("DELETE", f"{collection}/{name}")


def _collection(path: str, namespace: str) -> str:
    """The path of an object's collection, for a watch of one or all namespaces."""
    if not namespace or "/namespaces/" in path:
        return path
    root, _, plural = path.rpartition("/")
    return f"{root}/namespaces/{namespace}/{plural}"


def _only_status_differs(earlier: Any, tree: Any) -> bool:
    if earlier.get("status") == tree.get("status"):
        return False
    kept = (
        {key: item for key, item in state.items() if key not in ("status", "metadata")} for state in (earlier, tree)
    )
    return next(kept) == next(kept)
