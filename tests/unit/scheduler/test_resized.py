"""While pods are resized, nodes count their actual resources instead of their specs' (KEP-1287)."""

from __future__ import annotations

from allotment.cluster.resources import PODS
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.scheduler.world import node, pod, world


def running(cpu: str, has: str) -> Tree:
    """A pod whose spec and container status differ in the amount of CPU."""
    tree = pod("p", requests={"cpu": cpu}, nodeName="a")[1]
    status = {"name": "c", "resources": {"requests": {"cpu": has}}, "allocatedResources": {"cpu": has}}
    return {**tree, "status": {"phase": "Running", "containerStatuses": [status]}}


def test_a_pod_waits_until_the_resize_of_another_is_actuated() -> None:
    async def scenario() -> None:
        async with world(node("a", cpu="4"), (PODS, running("1", "3")), pod("q", requests={"cpu": "2"})) as lab:
            assert "1 Insufficient cpu" in await lab.reported_message("q")
            lab.put(PODS, {**lab.pod("p"), "status": running("1", "1")["status"]})
            await lab.bound("q")

    idle.run(scenario())
