"""Migrated workloads in a running lab: their pods run, with the devices that a device plugin gave them."""

from __future__ import annotations

import asyncio

import pytest

from allotment.cluster.resources import NODES
from allotment.model.core import Node
from allotment.tools.migrate.report import Migration
from allotment.tools.migrate.simulation.environment import environment_of
from tests.corpus.migrate.test_round_trip import on_its_fleet
from tests.lab.harness import LabHarness, lab_harness

#: Workload of the corpus -> namespace, pods, devices of each, and the number of GPUs in all.
EXPECTED = {
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


def migration_of(name: str) -> Migration:
    migration = on_its_fleet(name)
    assert migration is not None
    return migration


async def label(lab: LabHarness, nodes: list[Node]) -> None:
    """The node labels of feature discovery, which keeps running without a device plugin."""
    for node in nodes:
        await lab.client.patch(NODES, node.metadata.name, {"metadata": {"labels": dict(node.metadata.labels)}})


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_migrated_workload_runs_with_its_devices(name: str) -> None:
    migration = migration_of(name)
    namespace, count, each, gpus = EXPECTED[name]

    async def play() -> None:
        async with lab_harness(fleet=migration.target.fleet) as lab:
            await label(lab, environment_of(migration).without_plugin())
            for document in migration.after:
                await lab.create(document.tree)
            pods = await lab.running(namespace, count)
            devices = [[(pod["spec"]["nodeName"], device) for device in await lab.devices(pod)] for pod in pods]
            if each is not None:
                assert [len(own) for own in devices] == [each] * count
            assert len({device for own in devices for device in own}) == gpus

    asyncio.run(play())
