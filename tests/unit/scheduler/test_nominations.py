"""Pods nominated to a node (``status.nominatedNodeName``, KEP-5278), handled as kube-scheduler does."""

from __future__ import annotations

import asyncio
from typing import Any

from allotment.cluster.resources import PODS
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.scheduler.world import World, claim, device_class, gpus, node, pod, world


def expected(name: str, on: str, *claims: str, **more: Any) -> tuple[Any, Tree]:
    return pod(name, *claims, status={"phase": "Pending", "nominatedNodeName": on}, **more)


def nominate(lab: World, name: str, on: str) -> None:
    tree = lab.pod(name)
    lab.put(PODS, {**tree, "status": {**tree["status"], "nominatedNodeName": on}})


def apart_from(app: str) -> Tree:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_errors_of_other_nodes_do_not_matter_if_the_nominated_node_fits() -> None:
    selector = 'device.attributes["gpu.example.com"].size > 3'

    async def scenario() -> None:
        nodes = [node("a"), node("b"), gpus("a", 1), gpus("b", 1, attributes={"size": {"int": 4}})]
        wanted = claim("c", selector=selector), claim("d", selector=selector)
        async with world(*nodes, device_class(), *wanted, expected("told", "b", "c"), pod("untold", "d")) as lab:
            await lab.bound("told")
            assert lab.node_of("told") == "b"
            assert "no such key: size" in await lab.reported_message("untold", "SchedulerError")

    idle.run(scenario())


def test_pods_that_conflict_with_a_nominated_pod_are_refused() -> None:
    async def scenario() -> None:
        waiting = expected("waiting", "a", "c", labels={"app": "quiet"})
        loud = pod("loud", affinity=apart_from("quiet"))
        async with world(node("a"), device_class(), claim("c"), waiting) as lab:
            await lab.reported_message("waiting")
            nominate(lab, "waiting", "a")
            await asyncio.sleep(0.05)
            lab.put(*loud)
            assert "didn't match pod anti-affinity rules" in await lab.reported_message("loud")

    idle.run(scenario())


def test_room_is_reserved_for_a_nominated_pod_while_it_is_pending() -> None:
    async def scenario() -> None:
        async with world(node("a"), device_class(), claim("c"), pod("waiting", "c", requests={"cpu": "5"})) as lab:
            await lab.reported_message("waiting")
            nominate(lab, "waiting", "a")
            await asyncio.sleep(0.05)
            assert lab.pod("waiting")["status"]["nominatedNodeName"] == "a"  # nothing was tried for that
            lab.put(*pod("greedy", requests={"cpu": "5"}))
            assert "Insufficient cpu" in await lab.reported_message("greedy")
            lab.put(*gpus("a", 1))
            await lab.bound("waiting")

    idle.run(scenario())


def test_of_equal_pods_the_nominated_one_gets_the_node() -> None:
    async def scenario() -> None:
        pods = [pod(f"p{n}", requests={"cpu": "5"}, created=f"2026-01-01T00:00:0{n}Z") for n in range(3)]
        async with world(node("a", unschedulable=True), *pods) as lab:
            for n in range(3):
                await lab.reported_message(f"p{n}")
            nominate(lab, "p2", "a")
            await asyncio.sleep(0.05)
            lab.put(*node("a"))
            await lab.bound("p2")
            assert lab.node_of("p0") == lab.node_of("p1") == ""

    idle.run(scenario())


def test_a_withdrawn_nomination_frees_the_room() -> None:
    async def scenario() -> None:
        waiting = pod("waiting", "c", requests={"cpu": "5"})
        async with world(node("a"), device_class(), claim("c"), waiting) as lab:
            await lab.reported_message("waiting")
            nominate(lab, "waiting", "a")
            await asyncio.sleep(0.05)
            lab.put(*pod("other", requests={"cpu": "5"}))
            await lab.reported_message("other")
            nominate(lab, "waiting", "")
            await lab.bound("other")

    idle.run(scenario())


def test_a_pod_that_may_not_preempt_keeps_its_nomination() -> None:
    async def scenario() -> None:
        async with world(node("a"), pod("big", requests={"cpu": "8"})) as lab:
            await lab.bound("big")
            lab.put(*expected("meek", "a", requests={"cpu": "5"}, preemptionPolicy="Never"))
            await lab.reported_message("meek")
            assert lab.pod("meek")["status"]["nominatedNodeName"] == "a"
            lab.put(*expected("bold", "a", requests={"cpu": "5"}))
            await lab.reported_message("bold")
            await lab.until(lambda: not lab.pod("bold")["status"].get("nominatedNodeName"))

    idle.run(scenario())


def test_no_advice_suggests_tolerating_a_reservation() -> None:
    async def scenario() -> None:
        kept = {"key": "allotment.dev/reserved", "value": "order", "effect": "NoSchedule"}
        own_toleration = {
            "key": "allotment.dev/reserved",
            "operator": "Equal",
            "value": "order",
            "effect": "NoSchedule",
        }
        async with world(
            node("a", taints=[kept]), pod("other"), expected("p", "a", tolerations=[own_toleration])
        ) as lab:
            await lab.bound("p")
            message = await lab.reported_message("other")
            assert "newly provisioned, and reserved for other pods: a" in message
            assert "tolerate the" not in message
            lab.put(*node("a"))
            await lab.bound("other")

    idle.run(scenario())
