"""Ownership cycles on Kubernetes' own garbage collector: the reference for Allotment's (tests/unit/controllers)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from allotment.cluster.client import Client
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import target
from allotment.cluster.resources import CONFIG_MAPS
from bench.real_kube import ApiServer
from tests.polling import until


async def create_cycle(client: Client, *names: str) -> None:
    """Create objects of which each is owned by the one before it, and the first one by the last."""
    created = [await client.create(CONFIG_MAPS, {"metadata": {"name": name}}, "default") for name in names]
    for tree, owner in zip(created, [created[-1], *created], strict=False):
        metadata = owner["metadata"]
        reference = {
            "apiVersion": "v1", "kind": "ConfigMap", "name": metadata["name"], "uid": metadata["uid"],
            "blockOwnerDeletion": True,
        }  # fmt: skip
        patch = {"metadata": {"ownerReferences": [reference]}}
        await client.patch(CONFIG_MAPS, tree["metadata"]["name"], patch, "default")


async def until_owners_are_known(client: Client) -> None:
    """Wait until the garbage collector has seen the owners of all ConfigMaps: it sees changes in their order."""
    owner = await client.create(CONFIG_MAPS, {"metadata": {"name": "last-owner"}}, "default")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "last-owner", "uid": owner["metadata"]["uid"]}
    dependent = {"metadata": {"name": "last-dependent", "ownerReferences": [reference]}}
    await client.create(CONFIG_MAPS, dependent, "default")
    await client.delete(CONFIG_MAPS, "last-owner", "default", propagation="Background")

    async def is_collected() -> bool:
        items = (await client.list(CONFIG_MAPS, "default")).items
        return "last-dependent" not in {tree["metadata"]["name"] for tree in items}

    await until(is_collected)


async def delete(client: Client, names: Sequence[str]) -> None:
    for name in names:
        await client.delete(CONFIG_MAPS, name, "default", propagation="Foreground")


def test_a_cycle_is_broken_at_a_member_that_no_client_has_deleted(kube: ApiServer) -> None:
    async def scenario() -> None:
        async with HttpClient(target([kube.kubeconfig])) as client:

            async def names() -> set[str]:
                items = (await client.list(CONFIG_MAPS, "default")).items
                return {tree["metadata"]["name"] for tree in items} - {"kube-root-ca.crt"}

            async def only_those_stay() -> bool:
                return await names() == {"self", "x", "y"}

            await create_cycle(client, "self")
            await create_cycle(client, "x", "y")
            await create_cycle(client, "a", "b", "c")
            await create_cycle(client, "d", "e", "f", "g")
            await until_owners_are_known(client)
            # It breaks a cycle as soon as it sees one deletion in it, even if a client is about to delete the others.
            with kube.paused("kube-controller-manager"):
                await delete(client, ["self", "x", "y"])
                await delete(client, ["a"])
                await delete(client, ["d", "f"])
            await until(only_those_stay, names)

    asyncio.run(scenario())
