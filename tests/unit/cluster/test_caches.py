"""All programs of a process read one cache of a resource."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from allotment.cluster.caches import Caches, all_synced
from allotment.cluster.resources import NODES, PODS
from allotment.model.core import Node, Pod
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.cluster.memory import MemoryClient

FAST = IdleClock(speed=200)


def test_caches_of_one_resource_are_shared_and_started_on_first_use() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        client.put(NODES, {"metadata": {"name": "n1"}})
        caches = Caches(client, clock=FAST, random=Random(1))
        trees = caches.trees(PODS)
        task = asyncio.create_task(caches.run())
        pods, nodes = caches.of(PODS, Pod), caches.of(NODES, Node)
        await all_synced(pods, nodes)
        assert id(pods) == id(trees)
        assert [node.metadata.name for node in nodes.values()] == ["n1"]
        with pytest.raises(TypeError, match="pods are read as Pod and as Node"):
            caches.of(PODS, Node)
        task.cancel()

    idle.run(scenario())
