"""Ownership cycles: the lab keeps running, and deleted objects disappear."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from allotment.cluster.client import Resource
from allotment.cluster.resources import CONFIG_MAPS, DISRUPTION_BUDGETS, JOBS, PODS, REPLICA_SETS
from allotment.model.trees import Tree
from tests.lab.harness import LabHarness, lab_harness
from tests.polling import until

NAMES = ("a", "b", "c")
LABELS = {"app": "web"}
TEMPLATE: Tree = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "main", "image": "busybox", "command": ["sleep", "infinity"]}]},
}


def config_map(name: str) -> Tree:
    return {"metadata": {"name": name}}


def pod(name: str) -> Tree:
    return {"metadata": {"name": name}, "spec": TEMPLATE["spec"]}


def replica_set(name: str) -> Tree:
    spec = {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": TEMPLATE}
    return {"metadata": {"name": name}, "spec": spec}


async def create_cycle(lab: LabHarness, resource: Resource, made: Sequence[Tree], **reference: bool) -> None:
    """Create objects of which each names the one before it as its owner, and the first one names the last."""
    trees = [await lab.client.create(resource, tree, "default") for tree in made]
    for tree, owner in zip(trees, [trees[-1], *trees], strict=False):
        metadata = owner["metadata"]
        reference_of = {
            "apiVersion": resource.api_version, "kind": resource.kind, "name": metadata["name"], "uid": metadata["uid"],
            **reference,
        }  # fmt: skip
        patch = {"metadata": {"ownerReferences": [reference_of]}}
        await lab.client.patch(resource, tree["metadata"]["name"], patch, "default")


@pytest.mark.parametrize(("resource", "made"), [(CONFIG_MAPS, config_map), (PODS, pod)])
def test_a_foreground_deletion_is_not_blocked_by_a_cycle(resource: Resource, made: Callable[[str], Tree]) -> None:
    """Kubernetes' end-to-end test "should not be blocked by dependency circle"."""

    async def scenario() -> None:
        async with lab_harness() as lab:
            await create_cycle(lab, resource, [made(name) for name in NAMES], blockOwnerDeletion=True)
            await lab.client.delete(resource, "a", "default", propagation="Foreground")

            async def gone() -> bool:
                existing = (await lab.client.list(resource, "default")).items
                return not {tree["metadata"]["name"] for tree in existing} & set(NAMES)

            await until(gone)

    asyncio.run(asyncio.wait_for(scenario(), 100))


def test_a_budget_of_pods_whose_controllers_control_each_other_has_a_status() -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("t4-4x-pcie",)) as lab:
            budget = {
                "metadata": {"name": "budget"},
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}},
            }
            await lab.client.create(DISRUPTION_BUDGETS, budget, "default")
            await create_cycle(lab, REPLICA_SETS, [replica_set(name) for name in NAMES], controller=True)

            async def healthy() -> bool:
                status = (await lab.client.get(DISRUPTION_BUDGETS, "budget", "default")).get("status") or {}
                return bool(status.get("currentHealthy") == 6 and status["disruptionsAllowed"] == 1)

            await until(healthy)

    asyncio.run(asyncio.wait_for(scenario(), 100))


def test_a_job_with_very_many_indexes_does_not_block_others() -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("t4-4x-pcie",)) as lab:
            template = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
            most = 2**31 - 1
            spec = {"completionMode": "Indexed", "completions": most, "parallelism": 2, "template": template}
            await lab.client.create(JOBS, {"metadata": {"name": "wide"}, "spec": spec}, "default")
            await lab.running("default", 2)
            await lab.client.create(CONFIG_MAPS, config_map("another"), "default")

    asyncio.run(asyncio.wait_for(scenario(), 100))
