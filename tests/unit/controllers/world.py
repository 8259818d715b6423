"""A small cluster in which controllers run, and helpers for assertions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from allotment.cluster.caches import Caches
from allotment.cluster.client import Client, Resource
from allotment.cluster.program import Program, ProgramContext, run, run_queues
from allotment.cluster.recorder import Events
from allotment.cluster.resources import EVENTS, PODS
from allotment.cluster.work_queue import WorkQueue
from allotment.model.trees import Tree
from tests.polling import until
from tests.unit.cluster.idle import IdleClock
from tests.unit.cluster.memory import MemoryClient

NAMESPACE = "ns"


class World:
    """The cluster of a test."""

    def __init__(self, client: MemoryClient) -> None:
        self.client = client

    def put(self, resource: Resource, tree: Tree) -> Tree:
        """Write an object as another client does, with its status."""
        metadata = dict(tree["metadata"])
        if resource.namespaced:
            metadata.setdefault("namespace", NAMESPACE)
        return self.client.put(resource, {**tree, "metadata": metadata})

    def change(self, resource: Resource, name: str, **fields: Any) -> Tree:
        """Replace top-level fields of an object; ``metadata`` is merged."""
        known = self.get(resource, name)
        metadata = {**known["metadata"], **fields.pop("metadata", {})}
        if "spec" in fields and fields["spec"] != known.get("spec"):
            metadata["generation"] = metadata.get("generation", 1) + 1
        return self.client.put(resource, {**known, **fields, "metadata": metadata})

    def get(self, resource: Resource, name: str) -> Tree:
        return self.client.objects[resource, NAMESPACE if resource.namespaced else "", name]

    def all(self, resource: Resource) -> list[Tree]:
        return [tree for (kind, _, _), tree in sorted(self.client.objects.items(), key=str) if kind == resource]

    def names(self, resource: Resource) -> list[str]:
        return [tree["metadata"]["name"] for tree in self.all(resource)]

    def remove(self, resource: Resource, name: str) -> Tree:
        return self.client.remove(resource, NAMESPACE if resource.namespaced else "", name)

    def events(self, reason: str) -> list[str]:
        return [event["message"] for event in self.all(EVENTS) if event["reason"] == reason]

    async def until(self, true: Callable[[], object]) -> None:
        """Wait until a condition holds; on timeout, fail with the stored objects."""
        await until(true, self.client.summary)

    async def settled(self, seconds: float = 0.05) -> None:
        """Wait until no more objects are written."""
        written = -1
        while written != len(self.client.history):
            written = len(self.client.history)
            await asyncio.sleep(seconds)


@asynccontextmanager
async def world(
    *programs: Program, speed: float = 1.0, client: MemoryClient | None = None
) -> AsyncIterator[World]:  # fmt: skip
    """A cluster in which programs run."""
    client = client or MemoryClient()
    clock = IdleClock(speed)
    random = Random(1)

    def client_for(name: str, manager: str = "") -> Client:
        return client

    caches = Caches(client, clock=clock, random=random)
    context = ProgramContext(client_for, caches, clock, Events(client, clock=clock), random)
    task = asyncio.create_task(run({str(number): program for number, program in enumerate(programs)}, context))
    try:
        yield World(client)
    finally:
        task.cancel()
        await asyncio.wait([task])


async def kubelet(context: ProgramContext) -> None:
    """Start all pods except those with label ``stuck``; they become ready."""
    client = context.client_for("node")
    pods = context.caches.trees(PODS)

    async def start(key: tuple[str, str]) -> None:
        item = pods.item(*key)
        if item is not None and not item.status.get("phase") and "stuck" not in item.labels:
            status = pod(item.name, ready=True, status=item.status)["status"]
            await client.update(PODS, {**item.tree, "status": status}, subresource="status")

    queue: WorkQueue[tuple[str, str]] = WorkQueue("kubelet", start, clock=context.clock, random=context.random)
    await run_queues([queue], [(pods, lambda old, new: queue.add(new.key) if new else None)])


def pod(name: str, *, node: str = "", phase: str = "", ready: bool = False, **more: Any) -> Tree:
    """A pod; ``more`` are fields of its metadata, ``spec`` and ``status``."""
    spec = {"containers": [{"name": "c", "image": "i"}], **more.pop("spec", {})}
    status = dict(more.pop("status", {}))
    if node:
        spec["nodeName"] = node
    if phase:
        status["phase"] = phase
    if ready:
        status["phase"] = "Running"
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status["conditions"] = [*status.get("conditions", ()), condition]
    return {"metadata": {"name": name, "namespace": NAMESPACE, **more}, "spec": spec, "status": status}
