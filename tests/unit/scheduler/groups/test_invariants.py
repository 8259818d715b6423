"""Random clusters with several gangs: all or nothing, no device twice, and no gang waits although it fits."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from allotment.cluster.client import Resource
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.scheduler.groups.group_objects import WITH_TOPOLOGY, gang, group_condition, member
from tests.unit.scheduler.world import World, claim, device_class, gpus, node, world


class Gang:
    """A gang of a random cluster."""

    def __init__(self, random: Random, number: int) -> None:
        self.name = f"g{number}"
        self.size = random.randint(1, 4)
        self.minimum = random.randint(1, self.size)
        self.devices = random.randint(1, 2)
        self.topology = random.choice(("", "rack"))
        self.pods = [f"{self.name}-{n}" for n in range(self.size)]

    def objects(self) -> list[tuple[Resource, Tree]]:
        found = [gang(self.name, self.minimum, topology=self.topology)]
        for name in self.pods:
            found += [claim(name, count=self.devices), member(name, name, of=self.name)]
        return found

    def placed(self, lab: World) -> list[str]:
        return [name for name in self.pods if lab.node_of(name)]


@pytest.mark.parametrize("seed", range(20))
def test_gangs_of_a_random_cluster(seed: int) -> None:
    async def scenario() -> None:
        random = Random(seed)
        cluster = [device_class()]
        for number in range(random.randint(1, 4)):
            name = f"n{number}"
            cluster += [node(name, labels={"rack": f"r{number % 2}"}), gpus(name, random.randint(1, 4))]
        gangs = [Gang(random, number) for number in range(random.randint(1, 4))]
        objects = [value for each in gangs for value in each.objects()]
        random.shuffle(objects)
        async with world(*cluster, features=WITH_TOPOLOGY) as lab:
            for value in objects:
                lab.put(*value)
                await asyncio.sleep(random.choice((0, 0, 0.5)))
            await asyncio.sleep(60)
            check(lab, gangs)
            # A gang that ends makes room for the others.
            for name in gangs[0].placed(lab):
                lab.end(name)
            await asyncio.sleep(60)
            check(lab, gangs[1:])

    idle.run(scenario())


def check(lab: World, gangs: list[Gang]) -> None:
    used: list[tuple[str, str]] = []
    for each in gangs:
        placed = each.placed(lab)
        assert not placed or len(placed) >= each.minimum
        assert group_condition(lab, each.name)[0] == ("True" if placed else "False")
        nodes = {lab.node_of(name) for name in placed}
        if each.topology and placed:
            assert len({int(name[1:]) % 2 for name in nodes}) == 1
        for name in each.pods:
            devices = lab.devices(name)
            assert len(devices) == (each.devices if name in placed else 0)
            used += [(lab.node_of(name), device) for device in devices]
            assert lab.condition(name)["status"] == ("True" if name in placed else "False")
    assert len(used) == len(set(used))
