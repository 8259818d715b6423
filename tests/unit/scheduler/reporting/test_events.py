"""FailedScheduling events: written again only when the cause or the remedy changes; the condition has the counts."""

from __future__ import annotations

import asyncio
from typing import Any

from allotment.cluster.client import Resource
from allotment.cluster.lasting_events import REPEAT_SECONDS
from allotment.cluster.resources import NEW_EVENTS, NODES, PODS
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


def owned(name: str, claim_name: str, workload: str) -> tuple[Resource, Tree]:
    """A pod of a ReplicaSet."""
    resource, tree = pod(name, claim_name)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": workload, "uid": workload, "controller": True}
    return resource, {**tree, "metadata": {**tree["metadata"], "ownerReferences": [owner]}}


def test_a_report_names_no_other_workload_with_equal_pods() -> None:
    async def scenario() -> None:
        nodes: Any = (node("a"), gpus("a", 1), device_class())
        async with world(*nodes, claim("web-1-gpu"), owned("web-1", "web-1-gpu", "web"), speed=20) as lab:
            await lab.bound("web-1")
            for entry in (claim("web-2-gpu"), owned("web-2", "web-2-gpu", "web")):
                lab.put(*entry)
            for entry in (claim("batch-1-gpu"), owned("batch-1", "batch-1-gpu", "batch")):
                lab.put(*entry)
            own, other = [await condition_with(lab, name, "0/1 nodes") for name in ("web-2", "batch-1")]
            assert "run fewer replicas of ReplicaSet ns/web" in own
            assert "run fewer replicas" not in other
            assert "scale down ReplicaSet ns/web, whose pods do not end (claim ns/web-1-gpu)" in other

    idle.run(scenario())


def test_a_cordoned_node_replaced_by_another_one_writes_no_event() -> None:
    async def scenario() -> None:
        cordoned = (node("alpha", unschedulable=True), gpus("alpha", 2))
        async with world(*cordoned, device_class(), claim("two", count=2), pod("p", "two"), speed=20) as lab:
            await condition_with(lab, "p", "uncordon alpha")
            await lab.until(lambda: lab.events("FailedScheduling"))
            lab.put(*gpus("beta", 2))
            lab.put(*node("beta", unschedulable=True))
            lab.client.remove(NODES, "", "alpha")
            await condition_with(lab, "p", "uncordon beta")
            assert len(lab.events("FailedScheduling")) == 1

    idle.run(scenario())


def test_an_event_is_there_as_long_as_the_pod_is_pending() -> None:
    """The API server deletes an event an hour after it was written."""

    async def scenario() -> None:
        async with world(*CLUSTER, claim("nine", count=9), pod("p", "nine"), speed=20) as lab:
            await lab.until(lambda: lab.events("FailedScheduling"))
            (note,) = lab.events("FailedScheduling")
            for key in [key for key in lab.client.objects if key[0] == NEW_EVENTS]:
                lab.client.remove(*key)
            await lab.until(lambda: lab.events("FailedScheduling"))
            assert lab.events("FailedScheduling") == [note]

    idle.run(scenario())


def test_a_repeated_event_is_counted_and_ends_with_the_pod() -> None:
    async def scenario() -> None:
        async with world(*CLUSTER, claim("nine", count=9), pod("p", "nine"), speed=20) as lab:
            await lab.until(lambda: lab.events("FailedScheduling"))
            await asyncio.sleep(3 * REPEAT_SECONDS / 20)
            (event,) = [tree for (kind, *_), tree in lab.client.objects.items() if kind == NEW_EVENTS]
            assert event["series"]["count"] == 4
            lab.client.remove(PODS, "ns", "p")
            await asyncio.sleep(3 * REPEAT_SECONDS / 20)
            (event,) = [tree for (kind, *_), tree in lab.client.objects.items() if kind == NEW_EVENTS]
            assert event["series"]["count"] == 4

    idle.run(scenario())


def test_an_event_is_written_after_a_restart_although_the_condition_is_up_to_date() -> None:
    """The event of the earlier process expires."""

    async def scenario() -> None:
        async with world(*CLUSTER, claim("nine", count=9), pod("p", "nine"), speed=20) as lab:
            await condition_with(lab, "p", "0/1 nodes")
            await lab.until(lambda: lab.events("FailedScheduling"))
            (note,) = lab.events("FailedScheduling")
            waiting = lab.pod("p")
        async with world(*CLUSTER, claim("nine", count=9), (PODS, waiting), speed=20) as lab:
            await lab.until(lambda: lab.events("FailedScheduling"))
            assert lab.events("FailedScheduling") == [note]
            assert lab.condition("p") == waiting["status"]["conditions"][0]

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
