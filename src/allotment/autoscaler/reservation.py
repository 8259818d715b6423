"""A node that opens is first for those for whom it was bought: a taint keeps off all others until they are there.

Being told of a node (``nominatedNodeName``) is not enough. Kubernetes' scheduler keeps room for a pod that was told,
but no device; and nodes open one after the other, so that whoever is tried while its own is still closed takes
another's device, and leaves its own to somebody who cannot use it. Of all that says where a pod may go, tolerations are
what can be added while it waits. Where that is forbidden, nodes open for everybody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import Item
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import NODES, PODS
from allotment.model.trees import Tree
from allotment.node_fit.nodes import RESERVED

log = logging.getLogger(__name__)

__all__ = ["RESERVED", "admit", "is_reserved", "release", "reserve", "unreserved"]

_MAX_CONCURRENT = 16


async def admit(client: Client, cache: Cache[Any], pods: Iterable[Item[Any]], order: str) -> bool:
    """Let pods onto the node that is kept for an order; whether all of them may go there."""
    semaphore = asyncio.Semaphore(_MAX_CONCURRENT)
    toleration = {"key": RESERVED, "operator": "Equal", "value": order, "effect": "NoSchedule"}

    async def one(pod: Item[Any]) -> bool:
        known = pod.spec.get("tolerations") or []
        if toleration in known:
            return True
        patch = {"metadata": {"uid": pod.uid}, "spec": {"tolerations": [*known, toleration]}}
        async with semaphore:
            try:
                cache.noted(await client.patch(PODS, pod.name, patch, pod.namespace))
            except StatusError as error:
                # One that is gone needs no place.
                if error.code != 404:
                    log.info("%s/%s cannot be let onto a node of its own: %s", pod.namespace, pod.name, error)
                    return False
        return True

    return all(await asyncio.gather(*map(one, pods)))


async def reserve(client: Client, nodes: Cache[Any], name: str, order: str) -> None:
    """Keep a node for those who were let onto it."""
    node = nodes.item("", name)
    if node is not None and not is_reserved(node):
        taint = {"key": RESERVED, "value": order, "effect": "NoSchedule"}
        await _taint(client, nodes, node, [*(node.spec.get("taints") or ()), taint])


async def release(client: Client, nodes: Cache[Any], name: str) -> None:
    """Those who were promised a place are there, or will not come: the node is for everybody."""
    node = nodes.item("", name)
    if node is not None and is_reserved(node):
        await _taint(client, nodes, node, _without(node.spec["taints"]))


def is_reserved(node: Item[Any]) -> bool:
    """Whether a node is kept for those for whom it was bought."""
    return any(one["key"] == RESERVED for one in node.spec.get("taints") or ())


def unreserved(tree: Tree) -> Tree:
    """A node that nobody is kept off, a pod that was let onto none: as they were, and will be."""
    before = spec = tree.get("spec") or {}
    for field in ("taints", "tolerations"):
        if any(one.get("key") == RESERVED for one in spec.get(field) or ()):
            left = _without(spec[field])
            spec = {key: value for key, value in spec.items() if key != field} | ({field: left} if left else {})
    return tree if spec is before else {**tree, "spec": spec}


def _without(items: Sequence[Tree]) -> list[Tree]:
    return [one for one in items if one.get("key") != RESERVED]


async def _taint(client: Client, nodes: Cache[Any], node: Item[Any], taints: list[Tree]) -> None:
    # The list is written whole: whoever changed it since we read it must not be overruled.
    revision = {"resourceVersion": node.metadata["resourceVersion"]}
    try:
        nodes.noted(await client.patch(NODES, node.name, {"metadata": revision, "spec": {"taints": taints or None}}))
    except StatusError as error:
        if error.code != 404:
            raise
