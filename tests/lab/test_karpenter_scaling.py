"""The autoscaler with Karpenter's NodeClaims: the planner's own plans, shortages, MIG layouts, and deleted machines."""

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
from tests.lab.harness import LabHarness
from tests.lab.test_karpenter import run_coroutine, with_karpenter
from tests.polling import until

EXAMPLES = Path(__file__).parents[2] / "src" / "allotment" / "examples"


@asynccontextmanager
async def scaled_lab(*types: str, mig: MigManager | None = None, **more: Any) -> AsyncIterator[tuple[LabHarness, Any]]:
    """Karpenter's kinds and controller, and the autoscaler with its own planner on these types."""
    async with with_karpenter() as (lab, fake):
        for known in CLASSES["nvidia"]:
            await lab.create(to_tree(known, "resource.k8s.io/v1", "DeviceClass"))
        given: dict[str, Any] = {"consolidation": "never", "plan_seconds": inf, **more}
        options = AutoscalerOptions(
            provider=lambda context: Karpenter(context.client_for("allotment-autoscaler"), mig=mig),
            catalog=tuple(instance for instance in catalog() if instance.key in types),
            features=lab.plane.settings.features, **given,
        )  # fmt: skip
        clock, random = lab.plane.clock, Random(1)
        context = ProgramContext(
            lab.plane.client_for, Caches(lab.client, clock=clock, random=random), clock,
            Events(lab.client, clock=clock),
            random,
        )  # fmt: skip
        task = asyncio.create_task(run({"autoscaler": autoscaler(options)}, context))
        try:
            yield lab, fake
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


@run_coroutine
async def test_the_next_best_type_is_ordered_where_karpenter_has_no_capacity() -> None:
    async with scaled_lab("aws/g4dn.xlarge", "aws/g5.xlarge", "aws/g6.xlarge") as (lab, fake):
        fake.unavailable |= {"g4dn.xlarge", "g6.xlarge"}
        for tree in gpus("serving", replicas=2):
            await lab.create(tree)
        pods = await lab.running("default", 2)
        assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
        assert fake.launched == ["g5.xlarge", "g5.xlarge"]

        async def are_open() -> bool:
            return not any(node["spec"].get("unschedulable") for node in (await lab.client.list(NODES)).items)

        await until(are_open)


@run_coroutine
async def test_a_mig_layout_is_ordered_with_the_machine_and_its_devices_are_used() -> None:
    async with scaled_lab("aws/p4d.24xlarge", "aws/g5.xlarge", mig=MigManager()) as (lab, fake):
        await lab.client.create(NAMESPACES, {"metadata": {"name": "gpu-operator"}})
        for tree in yaml.safe_load_all((EXAMPLES / "04-seven-mig-slices.yaml").read_text("utf-8")):
            await lab.create(tree)
        pods = await until(lambda: _wait_for_running(lab, 7))
        (name,) = {pod["spec"]["nodeName"] for pod in pods}
        assert fake.launched == ["p4d.24xlarge"]
        labels = (await lab.client.get(NODES, name))["metadata"]["labels"]
        stored = await lab.client.get(CONFIG_MAPS, "allotment-mig-parted-config", "gpu-operator")
        assert labels["nvidia.com/mig.config"] in yaml.safe_load(stored["data"]["config.yaml"])["mig-configs"]


@run_coroutine
async def test_a_machine_is_replaced_by_cheaper_ones_and_its_node_claim_is_deleted() -> None:
    async with scaled_lab(
        "aws/g4dn.xlarge", "aws/g4dn.12xlarge", consolidation="cheaper", consolidate_after=20.0, budget="100%"
    ) as (lab, fake):
        for tree in gpus("big", count=4):
            await lab.create(tree)
        await lab.running("default", 1)
        assert fake.launched == ["g4dn.12xlarge"]
        for tree in gpus("small", replicas=2):
            await lab.create(tree)
        await until(lambda: _wait_for_running(lab, 3))
        assert fake.launched[1:] == ["g4dn.xlarge", "g4dn.xlarge"]
        await lab.client.delete(DEPLOYMENTS, "small", "default")
        await lab.client.delete(DEPLOYMENTS, "big", "default")
        for tree in gpus("few", replicas=2):
            await lab.create(tree)

        async def settled() -> bool:
            claims = (await lab.client.list(NODE_CLAIMS)).items
            kinds = sorted(claim["metadata"]["annotations"]["allotment.dev/instance-type"] for claim in claims)
            return kinds == ["aws/g4dn.xlarge", "aws/g4dn.xlarge"] and bool(await _wait_for_running(lab, 2))

        await until(settled)
        nodes = {node["metadata"]["name"] for node in (await lab.client.list(NODES)).items}
        assert {pod["spec"]["nodeName"] for pod in (await lab.client.list(PODS, "default")).items} == nodes


@run_coroutine
async def test_a_deleted_node_claim_is_replaced_and_not_paid_for_twice() -> None:
    async with scaled_lab("aws/g4dn.xlarge", "aws/g5.xlarge") as (lab, fake):
        fake.held = "Registered"  # its machine is being provisioned
        for tree in gpus("serving"):
            await lab.create(tree)

        async def claims() -> list[Tree]:
            return list((await lab.client.list(NODE_CLAIMS)).items)

        (first,) = await until(claims)
        await lab.client.delete(NODE_CLAIMS, first["metadata"]["name"])

        async def another() -> bool:
            return [claim["metadata"]["name"] for claim in await claims()] not in ([], [first["metadata"]["name"]])

        await until(another)
        fake.held = ""
        (pod,) = await lab.running("default", 1)
        (second,) = await claims()
        assert pod["spec"]["nodeName"] == second["status"]["nodeName"]


async def _wait_for_running(lab: LabHarness, number: int) -> list[Tree]:
    found = [pod for pod in (await lab.client.list(PODS)).items if pod.get("status", {}).get("phase") == "Running"]
    return found if len(found) == number and all("deletionTimestamp" not in pod["metadata"] for pod in found) else []
