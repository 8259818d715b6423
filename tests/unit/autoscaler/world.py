"""A small in-memory cluster with an autoscaler, a simulated provider and a predictable planner."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from math import inf
from random import Random
from typing import Any

from allotment.autoscaler.options import NAME, AutoscalerOptions, Planner
from allotment.autoscaler.program import autoscaler
from allotment.autoscaler.provider import Provider
from allotment.autoscaler.providers.faults import parse_faults
from allotment.autoscaler.providers.simulated import simulated_cloud
from allotment.cluster.caches import Caches
from allotment.cluster.client import Client, Listing, PatchKind, Resource, WatchEvent
from allotment.cluster.clock import Clock
from allotment.cluster.leader_election import LeaderElection
from allotment.cluster.program import ProgramContext, run
from allotment.cluster.recorder import Events
from allotment.cluster.resources import CONFIG_MAPS, NEW_EVENTS, NODES, PODS, SLICES
from allotment.fleet.catalog import InstanceType, catalog, template_of
from allotment.model.core import Node, Pod
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.trees import Tree, to_tree
from allotment.packing.problem import KeepGoing
from allotment.planning.limits import PlanLimits
from allotment.planning.report import PlannedMachine, PodPlacement, ProvisioningPlan, UnservedPod
from tests.polling import until
from tests.unit.cluster.idle import IdleClock
from tests.unit.cluster.memory import MemoryClient, refusal

NAMESPACE = "ns"
FEATURES = Features(kube="1.36")
SMALL, BIG = "aws/g4dn.xlarge", "aws/g5.xlarge"
#: The cheapest first.
TYPES: tuple[InstanceType, ...] = tuple(
    instance for key in (SMALL, BIG) for instance in catalog() if instance.key == key
)


class ClusterClient(MemoryClient):
    """An in-memory API server with the eviction subresource."""

    def __init__(self) -> None:
        super().__init__()
        self.refuse_eviction: set[str] = set()
        self.evicted: list[str] = []
        self.unchangeable: set[Resource] = set()
        """Resources that the client is not permitted to patch, except their status."""

    async def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", *, kind: PatchKind = "merge",
        subresource: str = "", force: bool = False, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        if resource in self.unchangeable and not subresource:
            raise refusal(403, "Forbidden", f"{resource.plural} may not be patched")
        return await super().patch(resource, name, patch, namespace, kind=kind, subresource=subresource)

    async def create(
        self, resource: Resource, tree: Tree, namespace: str = "", *, name: str = "", subresource: str = "",
        dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        if subresource != "eviction":
            return await super().create(resource, tree, namespace, name=name)
        pod = await self.get(PODS, name, namespace)
        if name in self.refuse_eviction:
            raise refusal(429, "TooManyRequests", "the pod's disruption budget does not allow it")
        self.evicted.append(name)
        return await self.delete(PODS, name, namespace, uid=pod["metadata"]["uid"])


class CrashingClient(ClusterClient):
    """The client of a process that is killed before or after one of its writes: no request succeeds after that."""

    def __init__(self, cluster: ClusterClient, writes: int, *, before: bool) -> None:
        super().__init__()
        self.__dict__.update(vars(cluster))
        self._cluster = cluster
        self._left = writes
        self._before = before

    async def _write(self, write: Callable[[], Awaitable[Tree]]) -> Tree:
        self._left -= 1
        dies = self._left == 0
        if self._left < 0 or (dies and self._before):
            await asyncio.Future()
        answer = await write()
        if dies:
            await asyncio.Future()
        return answer

    async def create(self, *words: Any, **named: Any) -> Tree:
        return await self._write(lambda: self._cluster.create(*words, **named))

    async def update(self, *words: Any, **named: Any) -> Tree:
        return await self._write(lambda: self._cluster.update(*words, **named))

    async def patch(self, *words: Any, **named: Any) -> Tree:
        return await self._write(lambda: self._cluster.patch(*words, **named))

    async def delete(self, *words: Any, **named: Any) -> Tree:
        return await self._write(lambda: self._cluster.delete(*words, **named))

    async def get(self, *words: Any, **named: Any) -> Tree:
        return await self._cluster.get(*words, **named)

    async def list(self, *words: Any, **named: Any) -> Listing:
        return await self._cluster.list(*words, **named)

    async def watch(self, *words: Any, **named: Any) -> AsyncIterator[WatchEvent]:
        async for event in self._cluster.watch(*words, **named):
            yield event


class World:
    """The cluster of a test."""

    def __init__(self, client: ClusterClient, clock: Clock) -> None:
        self.client = client
        self.clock = clock
        self.numbers = itertools.count(1)

    def all(self, resource: Resource) -> list[Tree]:
        return [tree for (kind, _, _), tree in sorted(self.client.objects.items(), key=str) if kind == resource]

    def pod(self, name: str, **more: Any) -> Tree:
        """Create an unschedulable pod."""
        return self.client.put(PODS, waiting_pod(name, **more))

    def get(self, name: str) -> Tree:
        return self.client.objects[PODS, NAMESPACE, name]

    def bind(self, name: str, node: str) -> None:
        """Bind a pod as the scheduler does."""
        pod = self.get(name)
        self.client.put(
            PODS, {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": {"phase": "Running", "conditions": []}}
        )

    def end(self, name: str) -> None:
        """Delete a pod."""
        self.client.remove(PODS, NAMESPACE, name)

    def nominated(self, name: str) -> str:
        return str(self.get(name)["status"].get("nominatedNodeName", ""))

    def machines(self) -> dict[str, str]:
        """Return the types of the existing nodes, by name."""
        return {
            node["metadata"]["name"]: node["metadata"]["labels"]["node.kubernetes.io/instance-type"]
            for node in self.all(NODES)
        }

    def orders(self) -> list[str]:
        """Return the names of the stored orders."""
        return self._maps("allotment.dev/order")

    def provider_machines(self) -> list[str]:
        """Return the names of the provider's machines."""
        return self._maps("allotment.dev/cloud")

    def _maps(self, label: str) -> list[str]:
        maps = self.all(CONFIG_MAPS)
        found = [
            config_map["metadata"]["name"] for config_map in maps if label in config_map["metadata"].get("labels", {})
        ]
        return [name.partition("-")[2] for name in found]

    def report(self) -> str:
        """Return the summary of the last plan's report."""
        maps = {config_map["metadata"]["name"]: config_map for config_map in self.all(CONFIG_MAPS)}
        return str(maps.get("allotment-autoscaler-report", {}).get("data", {}).get("summary", ""))

    def is_open(self, node: str) -> bool:
        """Whether a node accepts pods."""
        return not self.client.objects[NODES, "", node]["spec"].get("unschedulable")

    def event_texts(self, reason: str) -> list[str]:
        """Return the texts of the events with a reason."""
        return [tree["note"] for tree in self.all(NEW_EVENTS) if tree["reason"] == reason]

    def event_count(self, reason: str) -> int:
        """Return the number of events with a reason, including repetitions."""
        events = [tree for tree in self.all(NEW_EVENTS) if tree["reason"] == reason]
        return sum(tree.get("series", {}).get("count", 1) for tree in events)

    async def until(self, true: Callable[[], object], seconds: float = 8.0) -> None:
        await until(true, self.client.summary, seconds)

    async def after(self, seconds: float) -> None:
        """Wait this many seconds of the cluster's clock."""
        await self.clock.sleep(seconds)


def waiting_pod(name: str, **more: Any) -> Tree:
    """An unschedulable pod; ``spec`` and metadata fields in ``more``."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/0 nodes"}
    spec = {"containers": [{"name": "c", "image": "i"}], **more.pop("spec", {})}
    status = {"phase": "Pending", "conditions": [condition]}
    return {"metadata": {"name": name, "namespace": NAMESPACE, **more}, "spec": spec, "status": status}


def options(*faults: str, seconds: float = 2.0, planner: Planner | None = None, **more: Any) -> AutoscalerOptions:
    """Options with the simulated provider, the planner of this module, and plans independent of computing speed."""
    cloud: Callable[[ProgramContext], Provider] = simulated_cloud(TYPES, parse_faults(faults), seconds=seconds)
    given: dict[str, Any] = {"provider": cloud, "consolidation": "never", "plan_seconds": inf, **more}
    return AutoscalerOptions(catalog=TYPES, features=FEATURES, planner=planner or one_pod_a_machine, **given)


@asynccontextmanager
async def world(
    chosen: AutoscalerOptions, speed: float = 20.0, client: ClusterClient | None = None, clock: Clock | None = None,
    identity: str = "",
) -> AsyncIterator[World]:  # fmt: skip
    """Run an autoscaler in a cluster, with a kubelet and a driver that make new nodes ready.

    ``identity``: of the leader election; the autoscaler runs while it is the leader.
    """
    cluster_client = client or ClusterClient()
    context = context_of(cluster_client, clock or IdleClock(speed))
    election = LeaderElection(
        cluster_client, NAME, identity, clock=context.clock, random=context.random, namespace=NAMESPACE
    )

    async def scaling(context: ProgramContext) -> None:
        await (election.run(lambda: autoscaler(chosen)(context)) if identity else autoscaler(chosen)(context))

    task = asyncio.create_task(run({"autoscaler": scaling, "nodes": nodes_get_ready}, context))
    try:
        yield World(cluster_client, context.clock)
    finally:
        task.cancel()
        await asyncio.wait([task])


def context_of(client: Client, clock: Clock) -> ProgramContext:
    random = Random(1)

    def client_for(name: str, manager: str = "") -> Client:
        return client

    return ProgramContext(
        client_for, Caches(client, clock=clock, random=random), clock, Events(client, clock=clock), random
    )


async def nodes_get_ready(context: ProgramContext) -> None:
    """Make every new node ready, and publish the slices of its type's template."""
    client = context.client_for("node")
    nodes = context.caches.trees(NODES)
    await nodes.synced.wait()
    while True:
        for item in tuple(nodes.items()):
            annotations = item.metadata.get("annotations") or {}
            if item.status.get("conditions") or "allotment.dev/machine" not in annotations:
                continue
            status = {**item.status, "conditions": [{"type": "Ready", "status": "True"}]}
            nodes.record_write(await client.update(NODES, {**item.tree, "status": status}, subresource="status"))
            if "allotment.dev/hardware" not in annotations:
                continue
            label = item.labels["node.kubernetes.io/instance-type"]
            instance = next(type_ for type_ in TYPES if type_.name == label)
            for slice_ in template_of(instance, "", item.name).slices:
                await client.create(SLICES, to_tree(slice_, SLICES.api_version, SLICES.kind))
        await context.clock.sleep(0.5)


def one_pod_a_machine(values: Sequence[Object], limits: PlanLimits, keep_going: KeepGoing, /) -> ProvisioningPlan:
    """Give each pod its own node: its nominated one, an empty one, or the cheapest available machine."""
    nodes = [value.metadata.name for value in values if isinstance(value, Node) and not value.spec.unschedulable]
    pods = [value for value in values if isinstance(value, Pod)]
    taken = {pod.spec.node_name for pod in pods if pod.spec.node_name}
    waiting = [pod for pod in pods if not pod.spec.node_name]
    nominated_nodes = {pod.status.nominated_node_name for pod in waiting} - {""}
    machines: list[PlannedMachine] = []
    existing: list[PodPlacement] = []
    unserved: list[UnservedPod] = []
    most = len(waiting) if limits.max_machines is None else limits.max_machines
    for pod in waiting:
        key = ObjectKey(pod.metadata.namespace, pod.metadata.name)
        own_node = pod.status.nominated_node_name
        free = (
            own_node
            if own_node in nodes
            else next((node for node in nodes if node not in taken and node not in nominated_nodes), "")
        )
        if free:
            taken.add(free)
            existing.append(PodPlacement(pod=key, node=free))
            continue
        offering = _cheapest(limits)
        if offering is None or len(machines) >= most:
            code = "limits"
            unserved.append(UnservedPod(pod=key, owner="", code=code, text="no type is available within the limits"))
            continue
        instance, zone = offering
        name = f"new-{len(machines) + 1}"
        price = instance.price("on-demand")
        assert price is not None
        machines.append(
            PlannedMachine(
                node=name, instance=instance.key, form=instance.hardware, zone=zone, capacity_type="on-demand",
                usd_per_hour=price, placements=(PodPlacement(pod=key, node=name),), drivers=("gpu.nvidia.com",),
            )
        )  # fmt: skip
    total = sum((machine.usd_per_hour for machine in machines), Decimal(0))
    return ProvisioningPlan(
        machines=tuple(machines), existing=tuple(existing), unserved=tuple(unserved), total=total, bound=total
    )


def _cheapest(limits: PlanLimits) -> tuple[InstanceType, str] | None:
    out = {(key, zone) for key, zone, _ in limits.unavailable}
    for instance in TYPES:
        for zone in instance.zones[:2]:
            if not {(instance.key, zone), (instance.key, "")} & out:
                return instance, zone
    return None
