"""If a pod fits on a cordoned node, uncordoning it is the first remedy, whatever the other nodes lack."""

from __future__ import annotations

from typing import Any

from allotment.cluster.client import Resource
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.scheduler.world import World, claim, device_class, gpus, node, pod, world

Objects = tuple[tuple[Resource, Tree], ...]


async def message(*objects: tuple[Resource, Tree], claimed: int = 1, **pod_spec: Any) -> str:
    """The message of a pod's condition, with a claim for some devices."""
    one = (device_class(), claim("one", count=claimed), pod("p", "one", **pod_spec))
    async with world(*objects, *one, speed=20) as lab:
        await lab.until(lambda: lab.condition("p").get("message"))
        return str(lab.condition("p")["message"])


def small(name: str) -> Objects:
    """A node with devices and too little cpu."""
    return node(name, cpu="1"), gpus(name, 4)


def cordoned(name: str, count: int = 2, **more: Any) -> Objects:
    return node(name, unschedulable=True, **more), gpus(name, count)


def test_a_cordoned_node_is_uncordoned_if_the_other_one_is_short_of_cpu() -> None:
    lines = idle.run(message(*small("a"), *cordoned("b"), requests={"cpu": "4"})).splitlines()
    assert lines[:2] == [
        "b, which has the devices, is cordoned (node-not-eligible)",
        "  to make it fit on b: uncordon b",
    ]
    assert "  cpu: 4 requested; a has 1 of 1 free" in lines
    assert lines[-1].startswith("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.")


def test_the_same_for_memory_and_for_a_pod_without_devices() -> None:
    async def scenario() -> None:
        small, big = node("a", memory="1Gi"), node("b", unschedulable=True)
        async with world(small, big, pod("p", requests={"memory": "4Gi"}), speed=20) as lab:
            await lab.until(lambda: lab.condition("p").get("message"))
            lines = lab.condition("p")["message"].splitlines()
            assert lines[:2] == ["b is cordoned (node-not-eligible)", "  to make it fit on b: uncordon b"]

    idle.run(scenario())


def test_a_cordoned_node_that_is_short_of_cpu_itself_is_not_uncordoned() -> None:
    text = idle.run(message(*small("a"), *cordoned("b", cpu="2"), requests={"cpu": "4"}))
    assert text.splitlines()[0] == "cpu: 4 requested; a has 1 of 1 free"
    assert "uncordon b" not in text
    text = idle.run(message(*cordoned("b", cpu="2"), requests={"cpu": "4"}))
    assert "uncordon b" not in text


def test_of_two_cordoned_nodes_the_one_with_enough_devices_is_named() -> None:
    text = idle.run(message(*small("a"), *cordoned("b", 2), *cordoned("c", 4), claimed=4, requests={"cpu": "4"}))
    assert "uncordon c" in text
    assert "uncordon b" not in text


def test_a_cordoned_and_tainted_node_needs_both_changes_or_another_node_is_named() -> None:
    taint = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
    lines = idle.run(message(*cordoned("b", taints=[taint]))).splitlines()
    assert lines[1] == "  to make it fit on b: tolerate the node's taint dedicated, and uncordon b"
    text = idle.run(message(*cordoned("b", taints=[taint]), *cordoned("c")))
    assert "  to make it fit on c: uncordon c\n" in text
    text = idle.run(message(*small("a"), *cordoned("b", taints=[taint]), requests={"cpu": "4"}))
    assert text.splitlines()[0] == "cpu: 4 requested; a has 1 of 1 free"


def test_a_cordoned_node_is_uncordoned_if_the_other_one_is_full() -> None:
    async def scenario() -> None:
        async with world(
            node("a"), gpus("a", 1), device_class(), claim("first"), pod("user", "first"), speed=20
        ) as lab:
            await lab.bound("user")
            await _with_a_cordoned_node(lab)

    idle.run(scenario())


async def _with_a_cordoned_node(lab: World) -> None:
    for entry in (*cordoned("b"), claim("one"), pod("p", "one")):
        lab.put(*entry)
    await lab.until(lambda: lab.condition("p").get("message"))
    lines = lab.condition("p")["message"].splitlines()
    assert lines[0] == "b, which has the devices, is cordoned (node-not-eligible)"
    assert "  to make it fit on b: uncordon b" in lines
