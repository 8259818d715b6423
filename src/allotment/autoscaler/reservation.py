"""Reserves a new node for the pods that it was ordered for: a taint excludes other pods until these are bound.

A nomination (``nominatedNodeName``) is not sufficient. kube-scheduler reserves room for a nominated pod but no devices;
and nodes open one after the other, so that a pod whose own node is still cordoned would take another pod's device and
leave its own node to a pod that cannot use it. Of the fields that constrain a pod, only tolerations can be added while
it is pending. Where that is not permitted, nodes open for all pods.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import NODES, PODS
from allotment.model.trees import Tree
from allotment.node_fit.nodes import RESERVED

log = logging.getLogger(__name__)

__all__ = ["RESERVED", "admit", "is_reserved", "release", "reserve", "unreserved"]

_MAX_CONCURRENT = 16


async def admit(client: Client, cache: Cache[Any], pods: Iterable[CachedItem[Any]], order: str) -> bool:
    """Add tolerations for an order's node to pods; return whether all of them have it."""
    semaphore = asyncio.Semaphore(_MAX_CONCURRENT)
    toleration = {"key": RESERVED, "operator": "Equal", "value": order, "effect": "NoSchedule"}

    async def add_toleration(pod: CachedItem[Any]) -> bool:
        known = pod.spec.get("tolerations") or []
        if toleration in known:
            return True
        patch = {"metadata": {"uid": pod.uid}, "spec": {"tolerations": [*known, toleration]}}
        async with semaphore:
            try:
                cache.record_write(await client.patch(PODS, pod.name, patch, pod.namespace))
            except StatusError as error:
                # A deleted pod needs no node.
                if error.code != 404:
                    log.info("cannot add the toleration for its node to pod %s/%s: %s", pod.namespace, pod.name, error)
                    return False
        return True

    return all(await asyncio.gather(*map(add_toleration, pods)))


async def reserve(client: Client, nodes: Cache[Any], name: str, order: str) -> None:
    """Taint a node for the pods with the toleration."""
    node = nodes.item("", name)
    if node is not None and not is_reserved(node):
        taint = {"key": RESERVED, "value": order, "effect": "NoSchedule"}
        await _taint(client, nodes, node, [*(node.spec.get("taints") or ()), taint])


async def release(client: Client, nodes: Cache[Any], name: str) -> None:
    """Remove the taint, because the pods are bound or will not be."""
    node = nodes.item("", name)
    if node is not None and is_reserved(node):
        await _taint(client, nodes, node, _without(node.spec["taints"]))


def is_reserved(node: CachedItem[Any]) -> bool:
    """Whether a node has the taint."""
    return any(taint["key"] == RESERVED for taint in node.spec.get("taints") or ())


def unreserved(tree: Tree) -> Tree:
    """Return a node or pod without the taint or toleration."""
    before = spec = tree.get("spec") or {}
    for field in ("taints", "tolerations"):
        if any(item.get("key") == RESERVED for item in spec.get(field) or ()):
            left = _without(spec[field])
            spec = {key: value for key, value in spec.items() if key != field} | ({field: left} if left else {})
    return tree if spec is before else {**tree, "spec": spec}


def _without(items: Sequence[Tree]) -> list[Tree]:
    return [item for item in items if item.get("key") != RESERVED]


async def _taint(client: Client, nodes: Cache[Any], node: CachedItem[Any], taints: list[Tree]) -> None:
    # The whole list is written: concurrent changes of it must conflict.
    revision = {"resourceVersion": node.metadata["resourceVersion"]}
    try:
        nodes.record_write(
            await client.patch(NODES, node.name, {"metadata": revision, "spec": {"taints": taints or None}})
        )
    except StatusError as error:
        if error.code != 404:
            raise
