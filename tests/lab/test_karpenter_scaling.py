"""The whole of it on Karpenter's NodeClaims: the planner's own plans, shortages, layouts, and machines given back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import yaml

from allotment.autoscaler.options import AutoscalerOptions
from allotment.autoscaler.program import autoscaler
from allotment.autoscaler.providers.karpenter import NODE_CLAIMS, Karpenter, MigManager
from allotment.cluster.caches import Caches
from allotment.cluster.program import ProgramContext, run
from allotment.cluster.recorder import Events
from allotment.cluster.resources import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, NODES, PODS
from allotment.fleet.catalog import catalog
from allotment.fleet.device_classes import CLASSES
from allotment.model.trees import Tree, to_tree
from tests.lab.stage import Stage
from tests.lab.test_karpenter import played, with_karpenter
from tests.waiting import until

EXAMPLES = Path(__file__).parents[2] / "src" / "allotment" / "examples"


@asynccontextmanager
async def scaled(*types: str, mig: MigManager | None = None, **more: Any) -> AsyncIterator[tuple[Stage, Any]]:
    """Karpenter's kinds and controller, and the autoscaler with its own planner on these types."""
    async with with_karpenter() as (on, fake):
        for known in CLASSES["nvidia"]:
            await on.create(to_tree(known, "resource.k8s.io/v1", "DeviceClass"))
        given: dict[str, Any] = {"consolidation": "never", "plan_seconds": inf, **more}
        options = AutoscalerOptions(
            provider=lambda context: Karpenter(context.client_for("allotment-autoscaler"), mig=mig),
            catalog=tuple(one for one in catalog() if one.key in types), features=on.plane.settings.features, **given,
        )  # fmt: skip
        clock, random = on.plane.clock, Random(1)
        context = ProgramContext(
            on.plane.client_for, Caches(on.client, clock=clock, random=random), clock, Events(on.client, clock=clock),
            random,
        )  # fmt: skip
        task = asyncio.create_task(run({"autoscaler": autoscaler(options)}, context))
        try:
            yield on, fake
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def gpus(name: str, count: int = 1, replicas: int = 1) -> list[Tree]:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": count}}]
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}]}
    return [
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name},
         "spec": {"spec": {"devices": {"requests": requests}}}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
         "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
                  "template": {"metadata": {"labels": {"app": name}}, "spec": spec}}},
    ]  # fmt: skip


@played
async def test_where_karpenter_has_no_capacity_the_next_best_is_ordered() -> None:
    async with scaled("aws/g4dn.xlarge", "aws/g5.xlarge", "aws/g6.xlarge") as (on, fake):
        fake.none_of |= {"g4dn.xlarge", "g6.xlarge"}
        for tree in gpus("serving", replicas=2):
            await on.create(tree)
        pods = await on.running("default", 2)
        assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
        assert fake.launched == ["g5.xlarge", "g5.xlarge"]

        async def are_open() -> bool:
            return not any(node["spec"].get("unschedulable") for node in (await on.client.list(NODES)).items)

        await until(are_open)


@played
async def test_a_layout_is_ordered_with_the_machine_and_its_pieces_are_used() -> None:
    async with scaled("aws/p4d.24xlarge", "aws/g5.xlarge", mig=MigManager()) as (on, fake):
        await on.client.create(NAMESPACES, {"metadata": {"name": "gpu-operator"}})
        for tree in yaml.safe_load_all((EXAMPLES / "04-seven-mig-slices.yaml").read_text("utf-8")):
            await on.create(tree)
        pods = await until(lambda: _running(on, 7))
        (name,) = {pod["spec"]["nodeName"] for pod in pods}
        assert fake.launched == ["p4d.24xlarge"]
        labels = (await on.client.get(NODES, name))["metadata"]["labels"]
        stored = await on.client.get(CONFIG_MAPS, "allotment-mig-parted-config", "gpu-operator")
        assert labels["nvidia.com/mig.config"] in yaml.safe_load(stored["data"]["config.yaml"])["mig-configs"]


@played
async def test_a_machine_gives_way_to_cheaper_ones_and_its_node_claim_goes() -> None:
    async with scaled(
        "aws/g4dn.xlarge", "aws/g4dn.12xlarge", consolidation="cheaper", consolidate_after=20.0, budget="100%"
    ) as (on, fake):
        for tree in gpus("big", count=4):
            await on.create(tree)
        await on.running("default", 1)
        assert fake.launched == ["g4dn.12xlarge"]
        for tree in gpus("small", replicas=2):
            await on.create(tree)
        await until(lambda: _running(on, 3))
        assert fake.launched[1:] == ["g4dn.xlarge", "g4dn.xlarge"]
        await on.client.delete(DEPLOYMENTS, "small", "default")
        await on.client.delete(DEPLOYMENTS, "big", "default")
        for tree in gpus("few", replicas=2):
            await on.create(tree)

        async def settled() -> bool:
            claims = (await on.client.list(NODE_CLAIMS)).items
            kinds = sorted(one["metadata"]["annotations"]["allotment.dev/instance-type"] for one in claims)
            return kinds == ["aws/g4dn.xlarge", "aws/g4dn.xlarge"] and bool(await _running(on, 2))

        await until(settled)
        nodes = {node["metadata"]["name"] for node in (await on.client.list(NODES)).items}
        assert {pod["spec"]["nodeName"] for pod in (await on.client.list(PODS, "default")).items} == nodes


@played
async def test_a_node_claim_that_somebody_deletes_is_replaced_and_not_paid_for_twice() -> None:
    async with scaled("aws/g4dn.xlarge", "aws/g5.xlarge") as (on, fake):
        fake.held = "Registered"  # it is under way
        for tree in gpus("serving"):
            await on.create(tree)

        async def claims() -> list[Tree]:
            return list((await on.client.list(NODE_CLAIMS)).items)

        (first,) = await until(claims)
        await on.client.delete(NODE_CLAIMS, first["metadata"]["name"])

        async def another() -> bool:
            return [one["metadata"]["name"] for one in await claims()] not in ([], [first["metadata"]["name"]])

        await until(another)
        fake.held = ""
        (pod,) = await on.running("default", 1)
        (second,) = await claims()
        assert pod["spec"]["nodeName"] == second["status"]["nodeName"]


async def _running(on: Stage, number: int) -> list[Tree]:
    found = [pod for pod in (await on.client.list(PODS)).items if pod.get("status", {}).get("phase") == "Running"]
    return found if len(found) == number and all("deletionTimestamp" not in pod["metadata"] for pod in found) else []
