"""Which part of an object a write may touch: the object itself not its status, the status nothing but itself.

Most kinds with a status follow the same rule; here it stands once.
"""

from __future__ import annotations

from typing import Any

from allotment.apiserver.kinds.kind import Write

Tree = dict[str, Any]


def without_status(tree: Tree, write: Write) -> Tree:
    """A new object has no status yet, whatever the client wrote."""
    tree["status"] = {}
    return tree


def one_part(new: Tree, old: Tree, write: Write) -> Tree:
    """Through ``status`` only the status changes (and metadata); otherwise all but the status."""
    if write.subresource == "status":
        kept = {name: value for name, value in old.items() if name not in ("metadata", "status")}
        return {**kept, "metadata": new["metadata"], "status": new.get("status") or {}}
    if "status" in old:
        new["status"] = old["status"]
    else:
        new.pop("status", None)
    return new


def one_part_same_labels(new: Tree, old: Tree, write: Write) -> Tree:
    """As :func:`one_part`; a write to the status does not change labels either (apps/v1)."""
    new = one_part(new, old, write)
    if write.subresource == "status":
        metadata = {name: value for name, value in new["metadata"].items() if name != "labels"}
        labels = (old.get("metadata") or {}).get("labels")
        new["metadata"] = {**metadata, "labels": labels} if labels else metadata
    return new
