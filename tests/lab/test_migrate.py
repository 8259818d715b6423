"""Migrated workloads in a running lab: their pods run, with the devices that a device plugin gave them."""

from __future__ import annotations

import asyncio

import pytest

from allotment.cluster.resources import NODES
from allotment.model.core import Node
from allotment.tools.migrate.report import Migration
from allotment.tools.migrate.simulation.environment import environment_of
from tests.corpus.migrate.test_round_trip import on_its_fleet
from tests.lab.stage import Stage, stage

#: Workload of the corpus -> namespace, pods, devices of each, and of how many GPUs in all.
RUN = {
    "single-gpu": ("speech", 2, 1, 2),
    "product-selector": ("default", 2, 2, 4),
    "any-of-two": ("default", 1, 1, 1),
    "mig-inference": ("default", 3, 1, 3),
    "mixed-mig": ("default", 1, 3, 3),
    "time-sliced": ("default", 3, 1, 1),
    "stateful-init": ("serving", 2, 1, 2),
    "training-job": ("research", 1, 8, 8),
    "daemon-set": ("kube-system", 2, 1, 2),
    "amd": ("default", 2, None, 5),
}


def given(name: str) -> Migration:
    migration = on_its_fleet(name)
    assert migration is not None
    return migration


async def label(lab: Stage, nodes: list[Node]) -> None:
    """What feature discovery says of the nodes, which goes on without a device plugin."""
    for node in nodes:
        await lab.client.patch(NODES, node.metadata.name, {"metadata": {"labels": dict(node.metadata.labels)}})


@pytest.mark.parametrize("name", sorted(RUN))
def test_it_runs_with_its_devices(name: str) -> None:
    migration = given(name)
    namespace, count, each, gpus = RUN[name]

    async def play() -> None:
        async with stage(fleet=migration.target.fleet) as lab:
            await label(lab, environment_of(migration).without_plugin())
            for document in migration.after:
                await lab.create(document.tree)
            pods = await lab.running(namespace, count)
            devices = [[(pod["spec"]["nodeName"], device) for device in await lab.devices(pod)] for pod in pods]
            if each is not None:
                assert [len(own) for own in devices] == [each] * count
            assert len({device for own in devices for device in own}) == gpus

    asyncio.run(play())
