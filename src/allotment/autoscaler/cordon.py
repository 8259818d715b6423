"""Cordons nodes that are not complete yet, and nodes that will be removed.

An annotation marks the autoscaler's own cordons and their reason; a cordon without it belongs to another client and is
kept. DaemonSets run on cordoned nodes, so drivers start and publish; a custom taint would keep them away.
"""

from __future__ import annotations

from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import NODES
from allotment.model.trees import Tree
from allotment.node_fit.nodes import PROVISIONING

__all__ = ["LEAVING", "PROVISIONING", "cordon", "cordoned", "is_cordoned"]

#: Annotation of a node that is cordoned before its removal; `PROVISIONING` marks one that is not complete yet.
LEAVING: Final = "allotment.dev/leaving"


def is_cordoned(node: CachedItem[Any], why: str) -> bool:
    """Whether the autoscaler cordoned a node for this reason."""
    return why in (node.metadata.get("annotations") or {})


def cordoned(node: Tree, why: str) -> Tree:
    """Return a new node as cordoned."""
    metadata = node["metadata"]
    annotations = {**(metadata.get("annotations") or {}), why: "true"}
    return {
        **node,
        "metadata": {**metadata, "annotations": annotations},
        "spec": {**(node.get("spec") or {}), "unschedulable": True},
    }


async def cordon(client: Client, nodes: Cache[Any], name: str, why: str, *, on: bool) -> None:
    """Cordon or uncordon a node, unless that is already done or the node does not exist."""
    node = nodes.item("", name)
    if node is None or is_cordoned(node, why) == on:
        return
    patch = {
        "metadata": {"annotations": {why: "true" if on else None}},
        "spec": {"unschedulable": True if on else None},
    }
    try:
        nodes.record_write(await client.patch(NODES, name, patch))
    except StatusError as error:
        if error.code != 404:
            raise
