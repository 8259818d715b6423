"""Nodes that take no new pods because we say so: those that are not complete yet, and those that will go.

A cordon of ours says why in an annotation. One without it is somebody else's, and stays. DaemonSets run on cordoned
nodes, so drivers come up and publish; a taint of our own would keep them away.
"""

from __future__ import annotations

from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import Item
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import NODES
from allotment.model.trees import Tree
from allotment.node_fit.nodes import PROVISIONING

__all__ = ["COMING", "LEAVING", "cordon", "cordoned", "is_cordoned"]

#: A node that is cordoned because it will be given back; `COMING` one that is not complete yet.
LEAVING: Final = "allotment.dev/leaving"


def is_cordoned(node: Item[Any], why: str) -> bool:
    """Whether a cordon of ours is on a node, for this reason."""
    return why in (node.metadata.get("annotations") or {})


def cordoned(node: Tree, why: str) -> Tree:
    """A node that is to begin its life cordoned."""
    metadata = node["metadata"]
    annotations = {**(metadata.get("annotations") or {}), why: "true"}
    return {
        **node,
        "metadata": {**metadata, "annotations": annotations},
        "spec": {**(node.get("spec") or {}), "unschedulable": True},
    }


async def cordon(client: Client, nodes: Cache[Any], name: str, why: str, *, on: bool) -> None:
    """Cordon a node, or end that, unless that is so already; nothing happens if there is no such node."""
    node = nodes.item("", name)
    if node is None or is_cordoned(node, why) == on:
        return
    patch = {
        "metadata": {"annotations": {why: "true" if on else None}},
        "spec": {"unschedulable": True if on else None},
    }
    try:
        nodes.noted(await client.patch(NODES, name, patch))
    except StatusError as error:
        if error.code != 404:
            raise
