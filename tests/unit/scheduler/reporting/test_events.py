"""FailedScheduling events: written again only when the cause or the remedy changes; the condition has the counts."""

from __future__ import annotations

from typing import Any

from allotment.cluster.client import Resource
from allotment.cluster.resources import NODES, PODS
from allotment.model.trees import Tree
from allotment.node_fit.nodes import PROVISIONING
from tests.unit.cluster import idle
from tests.unit.scheduler.world import World, claim, device_class, gpus, node, pod, world

CLUSTER = (node("a"), gpus("a", 2), device_class())


def ordered(name: str) -> tuple[Resource, Tree]:
    """A node that an autoscaler ordered and that has no devices yet."""
    resource, tree = node(name, unschedulable=True)
    return resource, {**tree, "metadata": {**tree["metadata"], "annotations": {PROVISIONING: ""}}}


def nominate(lab: World, name: str, on: str) -> None:
    tree = lab.pod(name)
    lab.put(PODS, {**tree, "status": {**tree["status"], "nominatedNodeName": on}})


async def condition_with(lab: World, name: str, words: str) -> str:
    await lab.until(lambda: words in str(lab.condition(name).get("message", "")))
    return str(lab.condition(name)["message"])


def test_nodes_that_come_and_go_change_the_condition_and_write_no_event() -> None:
    async def scenario() -> None:
        async with world(*CLUSTER, claim("nine", count=9), pod("p", "nine"), speed=20) as lab:
            await condition_with(lab, "p", "0/1 nodes")
            for count in range(2, 6):
                lab.put(*node(f"other-{count}"))
                await condition_with(lab, "p", f"0/{count} nodes")
            lab.client.remove(NODES, "", "other-5")
            lab.client.remove(NODES, "", "other-4")
            lab.put(*node("new"))
            await condition_with(lab, "p", "0/4 nodes")
            await lab.until(lambda: lab.events("FailedScheduling"))
            (note,) = lab.events("FailedScheduling")
            assert "(too-few-devices)" in note.splitlines()[0]

    idle.run(scenario())


def test_another_cause_is_another_event() -> None:
    async def scenario() -> None:
        async with world(*CLUSTER, claim("nine", count=9), pod("p", "nine"), speed=20) as lab:
            await lab.until(lambda: lab.events("FailedScheduling"))
            lab.put(*node("a", unschedulable=True))
            await condition_with(lab, "p", "unschedulable")
            await lab.until(lambda: len(lab.events("FailedScheduling")) == 2)
            causes = {note.splitlines()[0] for note in lab.events("FailedScheduling")}
            assert len(causes) == 2

    idle.run(scenario())


def test_a_pod_with_an_ordered_machine_gets_no_other_advice() -> None:
    async def scenario() -> None:
        waiting: Any = [*CLUSTER, claim("held", count=2), pod("user", "held"), claim("one"), claim("two")]
        async with world(*waiting, speed=20) as lab:
            await lab.bound("user")
            lab.put(*pod("p", "one"))
            await lab.until(lambda: lab.events("FailedScheduling"))
            (before,) = lab.events("FailedScheduling")
            assert "wait for pod user to finish" in before
            lab.put(*ordered("new"))
            nominate(lab, "p", "new")
            message = await condition_with(lab, "p", "node new was provisioned for the pod and is not ready yet")
            assert "wait for pod" not in message
            # It stays known after the scheduler has cleared the nomination.
            lab.put(*node("third"))
            message = await condition_with(lab, "p", "0/3 nodes")
            assert message.startswith("node new was provisioned for the pod and is not ready yet")
            assert lab.events("FailedScheduling") == [before]

            other, tree = pod("q", "two")
            lab.put(other, {**tree, "status": {**tree["status"], "nominatedNodeName": "new"}})
            await lab.until(lambda: len(lab.events("FailedScheduling")) == 2)
            (note,) = set(lab.events("FailedScheduling")) - {before}
            assert note.splitlines()[:2] == [
                "node new was provisioned for the pod and is not ready yet (node-not-eligible)",
                "  what to do: Wait: the pod is placed once the node is initialized.",
            ]

            lab.client.remove(NODES, "", "new")
            lab.put(*node("fourth"))
            await condition_with(lab, "p", "wait for pod user to finish")

    idle.run(scenario())
