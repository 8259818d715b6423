"""Groups whose pods must share a topology domain, and groups of groups."""

from __future__ import annotations

import asyncio

from allotment.cluster.client import Resource
from allotment.cluster.resources import PODS
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.scheduler.groups.group_objects import (
    WITH_COMPOSITES,
    WITH_TOPOLOGY,
    composite,
    gang,
    group_condition,
    member,
)
from tests.unit.scheduler.world import NAMESPACE, claim, device_class, gpus, node, world


def racks(**gpus_by_node: int) -> list[tuple[Resource, Tree]]:
    """Nodes with GPUs; the part of the name before the underscore is the rack."""
    found = [device_class()]
    for name, count in gpus_by_node.items():
        found += [node(name, labels={"rack": name.partition("_")[0]}), gpus(name, count)]
    return found


def test_a_gang_runs_in_the_only_rack_with_enough_devices() -> None:
    async def scenario() -> None:
        cluster = racks(r1_a=1, r1_b=1, r2_a=2, r2_b=2)
        claims = [claim(f"c{n}") for n in range(4)]
        async with world(*cluster, *claims, gang(minimum=4, topology="rack"), features=WITH_TOPOLOGY) as lab:
            for n in range(4):
                lab.put(*member(f"p{n}", f"c{n}"))
            await lab.bound("p0", "p1", "p2", "p3")
            assert {lab.node_of(f"p{n}") for n in range(4)} == {"r2_a", "r2_b"}

    idle.run(scenario())


def test_no_rack_is_large_enough() -> None:
    async def scenario() -> None:
        cluster = racks(r1_a=1, r2_a=1)
        async with world(
            *cluster, claim("c0"), claim("c1"), gang(topology="rack"), features=WITH_TOPOLOGY
        ) as lab:  # fmt: skip
            lab.put(*member("p0", "c0"))
            lab.put(*member("p1", "c1"))
            assert "0/2 placements are available, first placement status: minCount (2) cannot be satisfied: " in (
                await lab.reported_message("p0")
            )
            # Only the nodes of the placement count.
            assert (await lab.reported_message("p1")).endswith("0/1 nodes are available: 1 cannot allocate all claims.")

    idle.run(scenario())


def test_a_label_that_no_node_has() -> None:
    async def scenario() -> None:
        cluster = racks(r1_a=2)
        async with world(
            *cluster, claim("c0"), claim("c1"), gang(topology="nope"), features=WITH_TOPOLOGY
        ) as lab:  # fmt: skip
            lab.put(*member("p0", "c0"))
            lab.put(*member("p1", "c1"))
            assert await lab.reported_message("p0") == "no feasible placements found"
            text = (
                "no feasible placements found, pod group preemption: No preemption victims found for incoming preemptor"
            )
            await lab.until(lambda: group_condition(lab) == ("False", "Unschedulable", text))

    idle.run(scenario())


def test_a_later_pod_stays_in_the_rack_of_its_group() -> None:
    async def scenario() -> None:
        cluster = racks(r1_a=2, r2_a=8)
        claims = [claim(f"c{n}") for n in range(3)]
        group = gang(minimum=1, topology="rack")
        placed = member("p0", nodeName="r1_a")
        async with world(*cluster, *claims, group, placed, features=WITH_TOPOLOGY) as lab:
            lab.put(*member("p1", "c1"))
            await lab.bound("p1")
            assert lab.node_of("p1") == "r1_a"

    idle.run(scenario())


def test_the_rack_that_holds_more_pods_wins() -> None:
    async def scenario() -> None:
        cluster = racks(r1_a=1, r2_a=3)
        claims = [claim(f"c{n}") for n in range(3)]
        group = gang(topology="rack")
        group[1]["spec"]["schedulingPolicy"] = {"basic": {}}
        async with world(*cluster, *claims, features=WITH_TOPOLOGY) as lab:
            for n in range(3):
                lab.put(*member(f"p{n}", f"c{n}"))
            lab.put(*group)
            await lab.bound("p0", "p1", "p2")
            assert {lab.node_of(f"p{n}") for n in range(3)} == {"r2_a"}

    idle.run(scenario())


# --- composite groups ------------------------------------------------------------------------------------------------

TWO_GROUPS = (composite(), gang("ga", 1, parent="top"), gang("gb", 1, parent="top"))


def test_the_groups_of_a_composite_group_are_placed_together() -> None:
    async def scenario() -> None:
        async with world(
            *racks(r1_a=2), claim("c0"), claim("c1"), *TWO_GROUPS, features=WITH_COMPOSITES
        ) as lab:  # fmt: skip
            lab.put(*member("p0", "c0", of="ga"))
            await asyncio.sleep(5)
            assert not lab.node_of("p0")
            assert not lab.condition("p0")
            lab.put(*member("p1", "c1", of="gb"))
            await lab.bound("p0", "p1")
            scheduled = ("True", "Scheduled", "")
            await lab.until(lambda: all(group_condition(lab, name) == scheduled for name in ("ga", "gb")))

    idle.run(scenario())


def test_pods_wait_for_the_composite_group_to_exist() -> None:
    async def scenario() -> None:
        top, *groups = TWO_GROUPS
        async with world(
            *racks(r1_a=2), claim("c0"), claim("c1"), *groups, features=WITH_COMPOSITES
        ) as lab:  # fmt: skip
            lab.put(*member("p0", "c0", of="ga"))
            lab.put(*member("p1", "c1", of="gb"))
            await asyncio.sleep(5)
            assert not lab.node_of("p0")
            lab.put(*top)
            await lab.bound("p0", "p1")

    idle.run(scenario())


def test_devices_for_one_of_two_groups() -> None:
    async def scenario() -> None:
        async with world(
            *racks(r1_a=1), claim("c0"), claim("c1"), *TWO_GROUPS, features=WITH_COMPOSITES
        ) as lab:  # fmt: skip
            lab.put(*member("p0", "c0", of="ga"))
            lab.put(*member("p1", "c1", of="gb"))
            top = (
                "pod group is unschedulable, 0/1 placements are available, first placement status: minCount (2) cannot "
                "be satisfied: 1 scheduled, 0 remaining"
            )
            assert await lab.reported_message("p0") == top
            assert (await lab.reported_message("p1")).endswith("0/1 nodes are available: 1 cannot allocate all claims.")
            await lab.until(lambda: group_condition(lab, "ga")[2].startswith(f"{top}, pod group preemption: "))
            await lab.until(
                lambda: (
                    group_condition(lab, "gb")[2]
                    == "pod group is unschedulable, 0/1 placements are available, first placement status: minCount (1) "
                    "cannot be satisfied: 0 scheduled, 0 remaining, pod group preemption: No preemption victims found "
                    "for incoming preemptor"
                )
            )
            lab.client.remove(PODS, NAMESPACE, "p1")
            lab.put(*composite(minimum=1))
            await lab.bound("p0")

    idle.run(scenario())
