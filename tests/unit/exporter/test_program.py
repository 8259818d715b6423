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
from tests.polling import until
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.cluster.memory import MemoryClient
from tests.unit.exporter.clusters import FEATURES, claim, fleet, pod, template
from tests.unit.exporter.exposition import values_of

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
    exporter_ = exporter(ExporterOptions(FEATURES, build_interval=0.01, diagnosis_interval=0.01, **options))
    task = asyncio.create_task(run({"exporter": exporter_.program}, context))
    try:
        yield exporter_
    finally:
        task.cancel()


def value(exporter_: Exporter, name: str, *labels: str) -> float | None:
    families = exporter_.families()
    return values_of(families, name).get(labels) if families else None


def test_values_follow_the_cluster() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        put(client, *fleet("a=2xt4"), template("many", count=3))
        async with exporting(client) as exporter_:
            assert exporter_.families() == ()
            await until(lambda: value(exporter_, "allotment_devices", "a", "gpu.nvidia.com", "Tesla T4", "free") == 2)
            put(client, claim("x", "gpu-0"), pod("p", template="many"))
            await until(lambda: value(exporter_, "allotment_devices", "a", "gpu.nvidia.com", "Tesla T4", "free") == 1)
            await until(lambda: value(exporter_, "allotment_pending_pods", "ml", "too-few-devices") == 1)
            client.remove(CLAIMS, "ml", "x")
            client.remove(PODS, "ml", "p")
            await until(lambda: value(exporter_, "allotment_devices", "a", "gpu.nvidia.com", "Tesla T4", "free") == 2)
            await until(lambda: value(exporter_, "allotment_pending_pods", "ml", "too-few-devices") is None)
            await asyncio.sleep(0.2)  # builds in progress have ended
            builds = value(exporter_, "allotment_exporter_builds_total")
            await asyncio.sleep(0.1)
            assert value(exporter_, "allotment_exporter_builds_total") == builds, "nothing has changed"
            assert abs((value(exporter_, "allotment_exporter_last_contact_timestamp_seconds") or 0) - _now()) < 60

    idle.run(scenario())


def test_a_latency_is_counted_once_and_only_after_the_start() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        put(client, *fleet("a=4xt4"), claim("before", "gpu-0", allocated="2026-01-01T00:00:09Z"))
        async with exporting(client) as exporter_:
            await until(lambda: value(exporter_, "allotment_claims", "ml", "allocated") == 1)
            assert value(exporter_, "allotment_claim_allocation_seconds", "gpu.nvidia.com", "user") is None
            made = claim("made", "gpu-1", allocated=LATER, annotations={POD_CLAIM_NAME: "gpu"})
            put(client, claim("mine", "gpu-2", allocated=LATER), made)
            await until(lambda: value(exporter_, "allotment_claims", "ml", "allocated") == 3)
            put(client, claim("mine", "gpu-2", allocated=LATER, users=["p"]))
            await until(lambda: value(exporter_, "allotment_claims", "ml", "reserved") == 1)
            assert value(exporter_, "allotment_claim_allocation_seconds", "gpu.nvidia.com", "user") == 1
            assert value(exporter_, "allotment_claim_allocation_seconds", "gpu.nvidia.com", "template") == 1

    idle.run(scenario())


def test_undecodable_objects_are_ignored() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        put(client, *fleet("a=2xt4"))
        broken: Tree = {"metadata": {"name": "broken", "namespace": "ml"}, "spec": {"devices": {"requests": "none"}}}
        client.put(CLAIMS, broken)
        async with exporting(client) as exporter_:
            put(client, claim("x", "gpu-0"))
            await until(lambda: value(exporter_, "allotment_claims", "ml", "allocated") == 1)
            assert value(exporter_, "allotment_claims", "ml", "pending") == 0

    idle.run(scenario())


def _now() -> float:
    return IdleClock().moment().timestamp()
