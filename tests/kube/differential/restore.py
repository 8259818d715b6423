"""Creates preempted pods again with their node and devices, so that the second scheduler finds the same state.

The pods are not scheduled: they have a node from the start, and their claims the earlier allocation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CLAIMS, PODS
from allotment.model.resource import FINALIZER
from allotment.model.trees import Tree
from tests.kube.differential.outcome import claims_of

_TIMEOUT_SECONDS: Final = 30.0


class NotRestored(Exception):
    """Raised when the API server rejects them."""


async def restore_pods(client: Client, gone: Sequence[Tree], claims: Mapping[str, Tree]) -> None:
    """Create the pods again; ``claims`` are the earlier ones by name."""
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            for pod in gone:
                await _restore(client, pod, [claims[name] for name in claims_of(pod)])
    except TimeoutError as error:
        raise NotRestored from error


async def _restore(client: Client, pod: Tree, had: Sequence[Tree]) -> None:
    metadata = pod["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    kept = {"name": name, "namespace": namespace, "labels": metadata["labels"]}
    created = await client.create(
        PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": pod["spec"]}, namespace
    )
    await client.patch(
        PODS, name, {"status": {"startTime": pod["status"]["startTime"]}}, namespace, subresource="status"
    )
    while not all(claims_of(created)):
        await asyncio.sleep(0.02)
        created = await client.get(PODS, name, namespace)
    user = {"resource": "pods", "name": name, "uid": created["metadata"]["uid"]}
    for claim, before in zip(claims_of(created), had, strict=True):
        while not await _allocate(client, claim, namespace, before["status"]["allocation"], user):
            await asyncio.sleep(0.02)


async def _allocate(client: Client, name: str, namespace: str, allocation: Tree, user: Tree) -> bool:
    """Set a claim's allocation and user; False if another client changed the claim meanwhile."""
    with suppress(StatusError):
        tree = await client.get(CLAIMS, name, namespace)
        if FINALIZER not in (tree["metadata"].get("finalizers") or ()):
            tree["metadata"].setdefault("finalizers", []).append(FINALIZER)
            tree = await client.update(CLAIMS, tree)
        users = (tree.get("status") or {}).get("reservedFor") or []
        tree["status"] = {**(tree.get("status") or {}), "allocation": allocation, "reservedFor": [*users, user]}
        await client.update(CLAIMS, tree, subresource="status")
        return True
    return False
