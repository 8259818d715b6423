"""Pods that were sent away come back with all that they had, so that the other scheduler finds what the first one did.

Nobody schedules them: they have a node from the start, and their claims the devices of before.
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
from tests.kube.differing.outcome import claims_of

_PATIENCE: Final = 30.0


class NotRestored(Exception):
    """The API server does not take them."""


async def restored(client: Client, gone: Sequence[Tree], claims: Mapping[str, Tree]) -> None:
    """Bring pods back; ``claims`` are those of before, by name."""
    try:
        async with asyncio.timeout(_PATIENCE):
            for pod in gone:
                await _restore(client, pod, [claims[name] for name in claims_of(pod)])
    except TimeoutError as error:
        raise NotRestored from error


async def _restore(client: Client, pod: Tree, had: Sequence[Tree]) -> None:
    metadata = pod["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    kept = {"name": name, "namespace": namespace, "labels": metadata["labels"]}
    made = await client.create(
        PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": pod["spec"]}, namespace
    )
    await client.patch(
        PODS, name, {"status": {"startTime": pod["status"]["startTime"]}}, namespace, subresource="status"
    )
    while not all(claims_of(made)):
        await asyncio.sleep(0.02)
        made = await client.get(PODS, name, namespace)
    user = {"resource": "pods", "name": name, "uid": made["metadata"]["uid"]}
    for claim, before in zip(claims_of(made), had, strict=True):
        while not await _given(client, claim, namespace, before["status"]["allocation"], user):
            await asyncio.sleep(0.02)


async def _given(client: Client, name: str, namespace: str, allocation: Tree, user: Tree) -> bool:
    """Whether a claim has the devices and the user; somebody else may have changed it meanwhile."""
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
