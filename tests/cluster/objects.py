"""Plain objects for the suite."""

from __future__ import annotations

from allotment.model.trees import Tree


def config_map(name: str, *, labels: dict[str, str] | None = None, **data: str) -> Tree:
    """A ConfigMap, which no controller changes."""
    return {"metadata": {"name": name, "labels": labels or {}}, "data": data}


def pod(name: str, **labels: str) -> Tree:
    """A pod that no scheduler binds."""
    spec = {"schedulerName": "none", "containers": [{"name": "main", "image": "busybox"}]}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def claim(name: str) -> Tree:
    """A claim for one device."""
    exactly = {"deviceClassName": "gpu.example.com"}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}


def owned(name: str, owner: Tree, kind: str, *, blocks: bool = False) -> Tree:
    """A ConfigMap that is deleted with its owner."""
    reference = {"apiVersion": "v1", "kind": kind, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    metadata = {"name": name, "ownerReferences": [{**reference, "blockOwnerDeletion": blocks}]}
    return {"metadata": metadata}


def names(trees: object) -> list[str]:
    assert isinstance(trees, list | tuple)
    return [tree["metadata"]["name"] for tree in trees]
