"""An in-memory cluster with a running scheduler, its objects and helpers for assertions."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from allotment.cluster.caches import Caches
from allotment.cluster.client import Client, PatchKind, Resource
from allotment.cluster.program import Program, ProgramContext, run
from allotment.cluster.recorder import Events
from allotment.cluster.resources import CLAIMS, DEVICE_CLASSES, NEW_EVENTS, NODES, PODS, SLICES
from allotment.cluster.shutdown import NEVER, Shutdown
from allotment.model.features import Features
from allotment.model.trees import Tree
from allotment.scheduler.program import SchedulerOptions, scheduler
from tests.polling import until
from tests.unit.cluster.idle import IdleClock
from tests.unit.cluster.memory import MemoryClient, refusal

NAMESPACE = "ns"
FEATURES = Features(kube="1.36")
DRIVER = "gpu.example.com"


class SchedulingClient(MemoryClient):
    """An in-memory API server with the binding subresource and immutable allocations."""

    def __init__(self) -> None:
        super().__init__()
        self.bound: list[tuple[str, str]] = []
        self.refuse_binding: list[Exception] = []
        self.on_claim: Callable[[Tree], None] | None = None

    async def create(
        self, resource: Resource, tree: Tree, namespace: str = "", *, name: str = "", subresource: str = "",
        dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        if subresource != "binding":
            return await super().create(resource, tree, namespace, name=name)
        if self.refuse_binding:
            raise self.refuse_binding.pop(0)
        pod = await self.get(PODS, name, namespace)
        if pod["spec"].get("nodeName"):
            raise refusal(409, "Conflict", f"pod {name} is already assigned to node")
        node = tree["target"]["name"]
        self.bound.append((name, node))
        others = [c for c in pod.get("status", {}).get("conditions", []) if c["type"] != "PodScheduled"]
        status = {**pod.get("status", {}), "conditions": [*others, {"type": "PodScheduled", "status": "True"}]}
        status.pop("nominatedNodeName", None)
        self.put(PODS, {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status})
        return {"kind": "Status", "status": "Success"}

    async def update(self, resource: Resource, tree: Tree, *, subresource: str = "", dry_run: bool = False) -> Tree:
        if resource == CLAIMS and subresource == "status" and self.on_claim is not None:
            act, self.on_claim = self.on_claim, None
            act(tree)
        return await super().update(resource, tree, subresource=subresource)

    async def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", *, kind: PatchKind = "merge",
        subresource: str = "", force: bool = False, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        await asyncio.sleep(0)
        return await super().patch(resource, name, patch, namespace, kind=kind, subresource=subresource)


class World:
    """The cluster of a test."""

    def __init__(self, client: SchedulingClient) -> None:
        self.client = client
        self.ended = asyncio.Event()
        """Whether the scheduler was stopped and has ended."""

    def put(self, resource: Resource, tree: Tree) -> Tree:
        return self.client.put(resource, tree)

    def pod(self, name: str) -> Tree:
        return self.client.objects[PODS, NAMESPACE, name]

    def claim(self, name: str) -> Tree:
        return self.client.objects[CLAIMS, NAMESPACE, name]

    def node_of(self, name: str) -> str:
        return str(self.pod(name)["spec"].get("nodeName", ""))

    def devices(self, claim: str) -> list[str]:
        allocation = self.claim(claim).get("status", {}).get("allocation", {})
        return [r["device"] for r in allocation.get("devices", {}).get("results", [])]

    def users(self, claim: str) -> list[str]:
        return [user["name"] for user in self.claim(claim).get("status", {}).get("reservedFor", [])]

    def condition(self, name: str) -> Tree:
        conditions = self.pod(name).get("status", {}).get("conditions", [])
        found: Tree = next((c for c in conditions if c["type"] == "PodScheduled"), {})
        return found

    def events(self, reason: str) -> list[str]:
        return [
            tree["note"]
            for (kind, _, _), tree in self.client.objects.items()
            if kind == NEW_EVENTS and tree["reason"] == reason
        ]

    def end(self, name: str) -> None:
        """Delete a pod and release its claims, as the claim controller does."""
        pod = self.client.remove(PODS, NAMESPACE, name)
        for (kind, _, _), tree in tuple(self.client.objects.items()):
            users = tree.get("status", {}).get("reservedFor", []) if kind == CLAIMS else []
            left = [user for user in users if user["uid"] != pod["metadata"]["uid"]]
            if len(left) != len(users):
                status = {**tree["status"], "reservedFor": left} if left else {}
                self.put(CLAIMS, {**tree, "status": status})

    async def until(self, true: Callable[[], object]) -> None:
        await until(true, self.client.summary)

    async def bound(self, *names: str) -> None:
        await self.until(lambda: all(self.node_of(name) for name in names))

    async def reported_message(self, name: str, reason: str = "Unschedulable") -> str:
        await self.until(lambda: self.condition(name).get("reason") == reason)
        return str(self.condition(name)["message"])


@asynccontextmanager
async def world(
    *objects: tuple[Resource, Tree], speed: float = 1.0, features: Features = FEATURES,
    programs: Sequence[Program] = (), settle: float | None = None, stopping: Shutdown = NEVER,
    client: SchedulingClient | None = None,
) -> AsyncIterator[World]:  # fmt: skip
    """Run a scheduler in a cluster with these objects and those of ``client``."""
    lab = World(client or SchedulingClient())
    for resource, tree in objects:
        lab.put(resource, tree)
    own_scheduler = scheduler(SchedulerOptions(features, settle=settle))

    async def scheduling(context: ProgramContext) -> None:
        await own_scheduler(context)
        lab.ended.set()

    running = [scheduling, *programs]
    context = context_of(lab.client, speed)._replace(stopping=stopping)
    task = asyncio.create_task(run(dict(zip(map(str, itertools.count()), running, strict=False)), context))
    try:
        yield lab
    finally:
        task.cancel()
        await asyncio.wait([task])


def context_of(client: Client, speed: float = 1.0) -> ProgramContext:
    clock = IdleClock(speed)
    random = Random(1)

    def client_for(name: str, manager: str = "") -> Client:
        return client

    return ProgramContext(
        client_for, Caches(client, clock=clock, random=random), clock, Events(client, clock=clock), random
    )


# --- objects -----------------------------------------------------------------------------------------------------


def node(name: str, *, cpu: str = "8", memory: str = "32Gi", pods: str = "110", **more: Any) -> tuple[Resource, Tree]:
    """A node; ``labels``, ``taints``, ``unschedulable`` and ``has`` (other resources) in ``more``."""
    labels = {"kubernetes.io/hostname": name, **more.get("labels", {})}
    amounts = {"cpu": cpu, "memory": memory, "pods": pods, **more.get("has", {})}
    spec: Tree = {"taints": more.get("taints", [])}
    if more.get("unschedulable"):
        spec["unschedulable"] = True
    return NODES, {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def gpus(on: str, count: int, *, model: str = "a100", driver: str = DRIVER, **device: Any) -> tuple[Resource, Tree]:
    """A slice of ``count`` devices on a node."""
    devices = [{"name": f"gpu-{n}", "attributes": {"model": {"string": model}}, **device} for n in range(count)]
    spec = {
        "driver": driver,
        "nodeName": on,
        "pool": {"name": on, "generation": 1, "resourceSliceCount": 1},
        "devices": devices,
    }
    return SLICES, {"metadata": {"name": f"{on}-{driver}"}, "spec": spec}


def device_class(name: str = DRIVER, **spec: Any) -> tuple[Resource, Tree]:
    """A class of all devices of a driver."""
    selectors = [{"cel": {"expression": f"device.driver == '{name}'"}}]
    return DEVICE_CLASSES, {"metadata": {"name": name}, "spec": {"selectors": selectors, **spec}}


def claim(name: str, *, count: int = 1, selector: str = "", of: str = DRIVER, **more: Any) -> tuple[Resource, Tree]:
    """A claim for some devices of a class; ``status`` and other metadata in ``more``."""
    exactly: Tree = {"deviceClassName": of, "allocationMode": "ExactCount", "count": count}
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    status = more.pop("status", {})
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return CLAIMS, {"metadata": {"name": name, "namespace": NAMESPACE, **more}, "spec": spec, "status": status}


def pod(name: str, *claims: str, **more: Any) -> tuple[Resource, Tree]:
    """A pod that names claims; ``requests``, ``labels``, ``created``, and other fields of its spec in ``more``."""
    container: Tree = {"name": "c", "image": "i", "resources": {"requests": more.pop("requests", {})}}
    if "limits" in more:
        container["resources"]["limits"] = more.pop("limits")
    if "ports" in more:
        container["ports"] = more.pop("ports")
    metadata: Tree = {"name": name, "namespace": NAMESPACE, "labels": more.pop("labels", {})}
    if "created" in more:
        metadata["creationTimestamp"] = more.pop("created")
    status = more.pop("status", {"phase": "Pending"})
    spec = {
        "containers": [container],
        "schedulerName": "default-scheduler",
        "resourceClaims": [{"name": f"c{n}", "resourceClaimName": c} for n, c in enumerate(claims)],
        **more,
    }
    return PODS, {"metadata": metadata, "spec": spec, "status": status}
