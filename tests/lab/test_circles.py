"""Objects that own or control each other: the whole lab goes on, and what is to be deleted is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from allotment.cluster.client import Resource
from allotment.cluster.resources import CONFIG_MAPS, DISRUPTION_BUDGETS, JOBS, PODS, REPLICA_SETS
from allotment.model.trees import Tree
from tests.lab.stage import Stage, stage
from tests.waiting import until

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


async def circle(on: Stage, resource: Resource, made: Sequence[Tree], **reference: bool) -> None:
    """Each of the objects names the one before it as its owner, and the first one names the last."""
    trees = [await on.client.create(resource, tree, "default") for tree in made]
    for tree, owner in zip(trees, [trees[-1], *trees], strict=False):
        metadata = owner["metadata"]
        reference_of = {
            "apiVersion": resource.api_version, "kind": resource.kind, "name": metadata["name"], "uid": metadata["uid"],
            **reference,
        }  # fmt: skip
        patch = {"metadata": {"ownerReferences": [reference_of]}}
        await on.client.patch(resource, tree["metadata"]["name"], patch, "default")


@pytest.mark.parametrize(("resource", "made"), [(CONFIG_MAPS, config_map), (PODS, pod)])
def test_a_foreground_deletion_is_not_blocked_by_a_circle(resource: Resource, made: Callable[[str], Tree]) -> None:
    """Kubernetes' end-to-end test "should not be blocked by dependency circle"."""

    async def story() -> None:
        async with stage() as on:
            await circle(on, resource, [made(name) for name in NAMES], blockOwnerDeletion=True)
            await on.client.delete(resource, "a", "default", propagation="Foreground")

            async def gone() -> bool:
                there = (await on.client.list(resource, "default")).items
                return not {tree["metadata"]["name"] for tree in there} & set(NAMES)

            await until(gone)

    asyncio.run(asyncio.wait_for(story(), 100))


def test_a_budget_of_pods_whose_controllers_control_each_other_has_a_status() -> None:
    async def story() -> None:
        async with stage(fleet=("t4-4x-pcie",)) as on:
            budget = {
                "metadata": {"name": "budget"},
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}},
            }
            await on.client.create(DISRUPTION_BUDGETS, budget, "default")
            await circle(on, REPLICA_SETS, [replica_set(name) for name in NAMES], controller=True)

            async def healthy() -> bool:
                status = (await on.client.get(DISRUPTION_BUDGETS, "budget", "default")).get("status") or {}
                return bool(status.get("currentHealthy") == 6 and status["disruptionsAllowed"] == 1)

            await until(healthy)

    asyncio.run(asyncio.wait_for(story(), 100))


def test_a_job_of_very_many_indexes_runs_beside_others() -> None:
    async def story() -> None:
        async with stage(fleet=("t4-4x-pcie",)) as on:
            template = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
            most = 2**31 - 1
            spec = {"completionMode": "Indexed", "completions": most, "parallelism": 2, "template": template}
            await on.client.create(JOBS, {"metadata": {"name": "wide"}, "spec": spec}, "default")
            await on.running("default", 2)
            await on.client.create(CONFIG_MAPS, config_map("another"), "default")

    asyncio.run(asyncio.wait_for(story(), 100))
