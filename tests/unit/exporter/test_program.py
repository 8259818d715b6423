"""The exporter follows a cluster: values come with changes, and each claim's wait is counted once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from allotment.cluster.caches import Caches
from allotment.cluster.client import Client, Resource
from allotment.cluster.program import ProgramContext, run
from allotment.cluster.recorder import Events
from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, DEVICE_CLASSES, NODES, PODS, SLICES
from allotment.exporter.program import Exporter, ExporterOptions, exporter
from allotment.model.core import Node, Pod
from allotment.model.generated_claims import POD_CLAIM_NAME
from allotment.model.meta import Object
from allotment.model.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from allotment.model.trees import Tree, to_tree
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.cluster.memory import MemoryClient
from tests.unit.exporter.clusters import FEATURES, claim, fleet, pod, template
from tests.unit.exporter.exposition import values_of
from tests.waiting import until

RESOURCES: dict[type[Object], Resource] = {
    Node: NODES,
    ResourceSlice: SLICES,
    DeviceClass: DEVICE_CLASSES,
    ResourceClaim: CLAIMS,
    ResourceClaimTemplate: CLAIM_TEMPLATES,
    Pod: PODS,
}
LATER = "2099-01-01T00:00:00Z"


def put(client: MemoryClient, *values: Object) -> None:
    for value in values:
        client.put(RESOURCES[type(value)], to_tree(value))


@asynccontextmanager
async def exporting(client: MemoryClient, **options: Any) -> AsyncIterator[Exporter]:
    clock, random = IdleClock(), Random(1)

    def client_for(name: str, manager: str = "") -> Client:
        return client

    context = ProgramContext(
        client_for, Caches(client, clock=clock, random=random), clock, Events(client, clock=clock), random
    )
    one = exporter(ExporterOptions(FEATURES, build_interval=0.01, diagnosis_interval=0.01, **options))
    task = asyncio.create_task(run({"exporter": one.program}, context))
    try:
        yield one
    finally:
        task.cancel()


def value(one: Exporter, name: str, *labels: str) -> float | None:
    families = one.families()
    return values_of(families, name).get(labels) if families else None


def test_values_follow_the_cluster() -> None:
    async def story() -> None:
        client = MemoryClient()
        put(client, *fleet("a=2xt4"), template("many", count=3))
        async with exporting(client) as one:
            assert one.families() == ()
            await until(lambda: value(one, "allotment_devices", "a", "gpu.nvidia.com", "Tesla T4", "free") == 2)
            put(client, claim("x", "gpu-0"), pod("p", template="many"))
            await until(lambda: value(one, "allotment_devices", "a", "gpu.nvidia.com", "Tesla T4", "free") == 1)
            await until(lambda: value(one, "allotment_pending_pods", "ml", "too-few-devices") == 1)
            client.remove(CLAIMS, "ml", "x")
            client.remove(PODS, "ml", "p")
            await until(lambda: value(one, "allotment_devices", "a", "gpu.nvidia.com", "Tesla T4", "free") == 2)
            await until(lambda: value(one, "allotment_pending_pods", "ml", "too-few-devices") is None)
            await asyncio.sleep(0.2)  # whatever was under way has ended
            builds = value(one, "allotment_exporter_builds_total")
            await asyncio.sleep(0.1)
            assert value(one, "allotment_exporter_builds_total") == builds, "nothing has changed"
            assert abs((value(one, "allotment_exporter_last_contact_timestamp_seconds") or 0) - _now()) < 60

    idle.run(story())


def test_a_latency_is_counted_once_and_only_after_the_start() -> None:
    async def story() -> None:
        client = MemoryClient()
        put(client, *fleet("a=4xt4"), claim("before", "gpu-0", allocated="2026-01-01T00:00:09Z"))
        async with exporting(client) as one:
            await until(lambda: value(one, "allotment_claims", "ml", "allocated") == 1)
            assert value(one, "allotment_claim_allocation_seconds", "gpu.nvidia.com", "user") is None
            made = claim("made", "gpu-1", allocated=LATER, annotations={POD_CLAIM_NAME: "gpu"})
            put(client, claim("mine", "gpu-2", allocated=LATER), made)
            await until(lambda: value(one, "allotment_claims", "ml", "allocated") == 3)
            put(client, claim("mine", "gpu-2", allocated=LATER, users=["p"]))
            await until(lambda: value(one, "allotment_claims", "ml", "reserved") == 1)
            assert value(one, "allotment_claim_allocation_seconds", "gpu.nvidia.com", "user") == 1
            assert value(one, "allotment_claim_allocation_seconds", "gpu.nvidia.com", "template") == 1

    idle.run(story())


def test_undecodable_objects_are_ignored() -> None:
    async def story() -> None:
        client = MemoryClient()
        put(client, *fleet("a=2xt4"))
        broken: Tree = {"metadata": {"name": "broken", "namespace": "ml"}, "spec": {"devices": {"requests": "none"}}}
        client.put(CLAIMS, broken)
        async with exporting(client) as one:
            put(client, claim("x", "gpu-0"))
            await until(lambda: value(one, "allotment_claims", "ml", "allocated") == 1)
            assert value(one, "allotment_claims", "ml", "pending") == 0

    idle.run(story())


def _now() -> float:
    return IdleClock().moment().timestamp()
