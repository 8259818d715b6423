"""A gang evicts pods of lower priority, whole groups where they must go together, and as few as possible."""

from __future__ import annotations

from typing import Any

from allotment.cluster.client import Resource
from allotment.cluster.resources import PODS
from allotment.model.features import Features
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.scheduler.groups.group_objects import (
    ON,
    WITH_COMPOSITES,
    WITH_TOPOLOGY,
    composite,
    gang,
    group_condition,
    member,
)
from tests.unit.scheduler.world import NAMESPACE, World, claim, device_class, gpus, node, pod, world

HIGH = 1000
GANG = gang(priority=HIGH)


def large(name: str, **more: Any) -> tuple[Resource, Tree]:
    """A pod of the gang that needs a node of its own."""
    return member(name, priority=HIGH, requests={"cpu": "8"}, **more)


def running(name: str, on: str, *, of: str = "", cpu: str = "4") -> tuple[Resource, Tree]:
    more: dict[str, Any] = {"schedulingGroup": {"podGroupName": of}} if of else {}
    return pod(name, nodeName=on, requests={"cpu": cpu}, priority=0, **more)


def exists(lab: World, name: str) -> bool:
    return (PODS, NAMESPACE, name) in lab.client.objects


def test_a_gang_evicts_only_what_it_needs() -> None:
    async def scenario() -> None:
        nodes = [node(f"n{n}", cpu="8") for n in range(3)]
        pods = [running("low0", "n0"), running("low1", "n1"), running("low2", "n2", cpu="8")]
        async with world(*nodes, *pods, GANG, features=WITH_TOPOLOGY) as lab:
            lab.put(*member("p0", priority=HIGH, requests={"cpu": "8"}))
            lab.put(*member("p1", priority=HIGH, requests={"cpu": "6"}))
            await lab.bound("p0", "p1")
            left = [name for name in ("low0", "low1", "low2") if exists(lab, name)]
            assert len(left) == 1
            await lab.until(lambda: lab.events("Preempted") == ["Preempted by podgroup uid-g on node cluster"] * 2)
            await lab.until(lambda: group_condition(lab) == ("True", "Scheduled", ""))

    idle.run(scenario())


def test_a_gang_waits_for_its_victims_to_terminate() -> None:
    async def scenario() -> None:
        low = running("low", "n0")
        low[1]["metadata"]["finalizers"] = ["wait"]
        async with world(node("n0", cpu="8"), low, gang(minimum=1, priority=HIGH), features=ON) as lab:
            lab.put(*large("p0"))
            assert (await lab.reported_message("p0")).endswith("0/1 nodes are available: 1 Insufficient cpu.")
            await lab.until(lambda: "pod group preemption: " in group_condition(lab)[2])
            await lab.until(lambda: lab.pod("p0")["status"].get("nominatedNodeName") == "n0")
            assert not lab.node_of("p0")
            lab.client.remove(PODS, NAMESPACE, "low")
            await lab.bound("p0")

    idle.run(scenario())


def test_a_group_whose_parent_is_missing_keeps_its_priority() -> None:
    async def scenario() -> None:
        important = gang("important", 1, parent="missing", priority=HIGH + 1)
        one = gang(minimum=1, priority=HIGH)
        pods = [running("p", "n0", of="important", cpu="8")]
        async with world(node("n0", cpu="8"), *pods, important, one, features=WITH_COMPOSITES) as lab:
            lab.put(*large("p0"))
            await lab.until(
                lambda: group_condition(lab)[2].endswith("No preemption victims found for incoming preemptor")
            )
            assert exists(lab, "p")

    idle.run(scenario())


def test_pods_of_a_group_with_disruption_mode_all_are_evicted_together() -> None:
    async def scenario() -> None:
        nodes = [node(f"n{n}", cpu="8") for n in range(2)]
        group = gang("low", 1, disruptionMode={"all": {}})
        pods = [running("low0", "n0", of="low"), running("low1", "n1", of="low")]
        async with world(*nodes, *pods, group, gang(minimum=1, priority=HIGH), features=ON) as lab:
            lab.put(*large("p0"))
            await lab.bound("p0")
            assert not exists(lab, "low0")
            assert not exists(lab, "low1")

    idle.run(scenario())


def test_devices_of_victims_are_not_free() -> None:
    async def scenario() -> None:
        cluster = (device_class(), node("n0"), gpus("n0", 2), claim("low"))
        async with world(*cluster, claim("c0"), claim("c1"), GANG, features=WITH_TOPOLOGY) as lab:
            lab.put(*pod("low", "low", priority=0))
            await lab.bound("low")
            lab.put(*member("p0", "c0", priority=HIGH))
            lab.put(*member("p1", "c1", priority=HIGH))
            unfit = (
                "pod group is unschedulable, 0/1 placements are available, first placement status: minCount (2) cannot "
                "be satisfied: 1 scheduled, 0 remaining"
            )
            text = f"{unfit}, deallocation and deletion of ResourceClaims completed, pod group preemption: {unfit}"
            assert await lab.reported_message("p0") == f"pod group is unschedulable, {text}"
            await lab.until(lambda: group_condition(lab) == ("False", "Unschedulable", text))
            assert exists(lab, "low")

    idle.run(scenario())


def test_a_gang_that_may_not_preempt() -> None:
    async def scenario() -> None:
        features = Features("1.37", {"GenericWorkload": True, "PodGroupPreemptionPolicy": True})
        group = gang(minimum=1, priority=HIGH, preemptionPolicy="Never")
        async with world(node("n0", cpu="8"), running("low", "n0"), group, features=features) as lab:
            lab.put(*large("p0", preemptionPolicy="Never"))
            message = await lab.reported_message("p0")
            assert message.endswith("0/1 nodes are available: 1 Insufficient cpu.")
            await lab.until(
                lambda: group_condition(lab)[2].endswith(
                    "deallocation and deletion of ResourceClaims completed, pod group preemption: not eligible due to "
                    "preemptionPolicy=Never."
                )
            )
            assert exists(lab, "low")

    idle.run(scenario())


def test_a_single_pod_evicts_a_group_with_disruption_mode_all_together() -> None:
    async def scenario() -> None:
        nodes = [node(f"n{n}", cpu="8") for n in range(2)]
        group = gang("low", 1, disruptionMode={"all": {}})
        pods = [running("low0", "n0", of="low"), running("low1", "n1", of="low"), running("other", "n1")]
        async with world(*nodes, *pods, group, features=ON) as lab:
            lab.put(*pod("high", requests={"cpu": "8"}, priority=HIGH))
            await lab.bound("high")
            assert lab.node_of("high") == "n0"
            assert not exists(lab, "low0")
            assert not exists(lab, "low1")
            assert exists(lab, "other")

    idle.run(scenario())


def test_pods_of_a_composite_group_are_evicted_together() -> None:
    async def scenario() -> None:
        nodes = [node(f"n{n}", cpu="8") for n in range(2)]
        top = composite("low", 1, disruptionMode={"all": {}})
        groups = [gang("ga", 1, parent="low"), gang("gb", 1, parent="low")]
        pods = [running("low0", "n0", of="ga"), running("low1", "n1", of="gb")]
        preemptor = gang(minimum=1, priority=HIGH)
        async with world(*nodes, *pods, top, *groups, preemptor, features=WITH_COMPOSITES) as lab:
            lab.put(*large("p0"))
            await lab.bound("p0")
            assert not exists(lab, "low0")
            assert not exists(lab, "low1")

    idle.run(scenario())
