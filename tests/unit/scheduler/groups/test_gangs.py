"""Gangs: all pods of a group get nodes and devices, or none."""

from __future__ import annotations

import asyncio

from allotment.cluster.resources import POD_GROUPS, PODS
from allotment.model.features import Features
from tests.unit.cluster import idle
from tests.unit.scheduler.groups.group_objects import ON, WITH_TOPOLOGY, gang, group_condition, member
from tests.unit.scheduler.world import NAMESPACE, claim, device_class, gpus, node, pod, world

TWO_GPUS = (device_class(), node("n1"), gpus("n1", 2))


def test_a_gang_is_placed_once_all_its_pods_exist() -> None:
    async def scenario() -> None:
        async with world(*TWO_GPUS, claim("c0"), claim("c1"), gang(), features=ON) as lab:
            lab.put(*member("p0", "c0"))
            await asyncio.sleep(5)
            assert not lab.node_of("p0")
            assert not lab.condition("p0")
            assert group_condition(lab) == ("", "", "")
            lab.put(*member("p1", "c1"))
            await lab.bound("p0", "p1")
            await lab.until(lambda: group_condition(lab) == ("True", "Scheduled", ""))

    idle.run(scenario())


def test_pods_wait_for_their_group_to_exist() -> None:
    async def scenario() -> None:
        async with world(*TWO_GPUS, claim("c0"), features=ON) as lab:
            lab.put(*member("p0", "c0"))
            await asyncio.sleep(5)
            assert not lab.node_of("p0")
            assert not lab.condition("p0")
            lab.put(*gang(minimum=1))
            await lab.bound("p0")

    idle.run(scenario())


def test_a_gang_with_devices_for_some_pods_gets_none() -> None:
    async def scenario() -> None:
        claims = [claim(f"c{n}") for n in range(3)]
        async with world(*TWO_GPUS, *claims, gang(minimum=3), features=WITH_TOPOLOGY) as lab:
            for n in range(3):
                lab.put(*member(f"p{n}", f"c{n}"))
            group = (
                "pod group is unschedulable, 0/1 placements are available, first placement status: minCount (3) cannot "
                "be satisfied: 2 scheduled, 0 remaining, pod group preemption: No preemption victims found for "
                "incoming preemptor"
            )
            assert await lab.reported_message("p0") == f"pod group is unschedulable, {group}"
            assert await lab.reported_message("p1") == f"pod group is unschedulable, {group}"
            last = await lab.reported_message("p2")
            assert last.endswith("0/1 nodes are available: 1 cannot allocate all claims.")
            assert "preemption" not in last
            await lab.until(lambda: group_condition(lab) == ("False", "Unschedulable", group))
            assert not any(lab.devices(f"c{n}") for n in range(3))
            lab.put(*gpus("n1", 3))
            await lab.bound("p0", "p1", "p2")
            await lab.until(lambda: group_condition(lab) == ("True", "Scheduled", ""))

    idle.run(scenario())


def test_without_topology_the_message_names_no_placements() -> None:
    async def scenario() -> None:
        claims = [claim(f"c{n}") for n in range(3)]
        async with world(*TWO_GPUS, *claims, gang(minimum=3), features=ON) as lab:
            for n in range(3):
                lab.put(*member(f"p{n}", f"c{n}"))
            assert await lab.reported_message("p0") == (
                "pod group is unschedulable, minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, pod group "
                "preemption: No preemption victims found for incoming preemptor"
            )

    idle.run(scenario())


def test_pods_after_the_first_failure_are_not_tried() -> None:
    async def scenario() -> None:
        two = claim("c0", count=3), claim("c1", count=1)
        async with world(*TWO_GPUS, *two, gang(), features=WITH_TOPOLOGY) as lab:
            lab.put(*member("p0", "c0"))
            lab.put(*member("p1", "c1"))
            assert await lab.reported_message("p1") == (
                "pod group is unschedulable, 0/1 placements are available, first placement status: minCount (2) cannot "
                "be satisfied: 0 scheduled, 1 remaining"
            )

    idle.run(scenario())


def test_pods_above_the_minimum_may_fail_alone() -> None:
    async def scenario() -> None:
        claims = [claim(f"c{n}") for n in range(3)]
        async with world(*TWO_GPUS, *claims, gang(minimum=2), features=ON) as lab:
            for n in range(3):
                lab.put(*member(f"p{n}", f"c{n}"))
            await lab.bound("p0", "p1")
            assert (await lab.reported_message("p2")).endswith("0/1 nodes are available: 1 cannot allocate all claims.")
            await lab.until(lambda: group_condition(lab)[0] == "True")
            lab.end("p0")
            await lab.bound("p2")
            assert group_condition(lab) == ("True", "Scheduled", "")

    idle.run(scenario())


def test_a_member_that_comes_again_is_placed_with_the_others() -> None:
    async def scenario() -> None:
        async with world(*TWO_GPUS, claim("c0"), claim("c1"), gang(), features=ON) as lab:
            lab.put(*member("p0", "c0"))
            lab.put(*member("p1", "c1"))
            await lab.bound("p0", "p1")
            lab.end("p0")
            lab.put(*member("p0", "c0"))
            await lab.bound("p0")

    idle.run(scenario())


def test_a_lower_minimum_lets_the_pods_run() -> None:
    async def scenario() -> None:
        async with world(*TWO_GPUS, claim("c0"), gang(minimum=2), features=ON) as lab:
            lab.put(*member("p0", "c0"))
            await asyncio.sleep(5)
            lab.put(*gang(minimum=1))
            await lab.bound("p0")

    idle.run(scenario())


def test_a_gated_pod_holds_the_whole_gang() -> None:
    async def scenario() -> None:
        async with world(*TWO_GPUS, claim("c0"), claim("c1"), gang(minimum=1), features=ON) as lab:
            lab.put(*member("p1", "c1", schedulingGates=[{"name": "wait"}]))
            await lab.until(lambda: lab.condition("p1"))
            lab.put(*member("p0", "c0"))
            await asyncio.sleep(5)
            assert not lab.node_of("p0")
            lab.client.remove(PODS, NAMESPACE, "p1")
            lab.put(*member("p2", "c1"))
            await lab.bound("p0", "p2")

    idle.run(scenario())


def test_pods_of_another_priority_are_an_error() -> None:
    async def scenario() -> None:
        async with world(*TWO_GPUS, claim("c0"), gang(minimum=1), features=ON) as lab:
            lab.put(*member("p0", "c0", priority=5))
            text = (
                "all pods in a single pod group should have the same priority as the pod group's priority, got 5 and 0"
            )
            assert await lab.reported_message("p0", "SchedulerError") == text
            await lab.until(lambda: group_condition(lab) == ("False", "SchedulerError", text))

    idle.run(scenario())


def test_kubernetes_1_36_schedules_each_pod_by_itself() -> None:
    async def scenario() -> None:
        gates = {"GenericWorkload": True, "GangScheduling": True}
        async with world(*TWO_GPUS, claim("c0"), gang(minimum=3), features=Features("1.36", gates)) as lab:
            lab.put(*member("p0", "c0"))
            await lab.bound("p0")
            assert group_condition(lab) == ("", "", "")
            assert (POD_GROUPS, NAMESPACE, "g") in lab.client.objects

    idle.run(scenario())


def test_a_pod_that_fits_alone_is_reported_to_lack_the_devices_of_the_other_pods_of_its_gang() -> None:
    async def scenario() -> None:
        claims = [claim(f"c{n}") for n in range(3)]
        async with world(*TWO_GPUS, *claims, gang(minimum=3), features=ON) as lab:
            for n in range(3):
                lab.put(*member(f"p{n}", f"c{n}"))
            first = (await lab.reported_message("p2")).splitlines()[0]
            assert first == (
                f"the pod fits alone, but not together with the other pods of gang {NAMESPACE}/g, which requires 3 "
                "(gang-incomplete)"
            )

    idle.run(scenario())


def test_waiting_for_the_devices_of_one_pod_is_not_suggested_to_a_gang() -> None:
    async def scenario() -> None:
        holding = [claim("theirs-0"), claim("theirs-1")]
        async with world(*TWO_GPUS, *holding, claim("c0"), claim("c1"), gang(), features=ON) as lab:
            for n in range(2):
                lab.put(*pod(f"x{n}", f"theirs-{n}"))
            await lab.bound("x0", "x1")
            for n in range(2):
                lab.put(*member(f"p{n}", f"c{n}"))
            message = await lab.reported_message("p0")
            assert "to make it fit" not in message
            assert f"PodGroup {NAMESPACE}/g is scheduled only if 2 of its pods fit together" in message

    idle.run(scenario())
