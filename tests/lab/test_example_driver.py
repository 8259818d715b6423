"""Kubernetes' example driver in a lab: its demonstrations run, and their containers are told what they were given."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from allotment.cluster.resources import CLAIMS, NODES, PODS
from tests.lab.driven import logs
from tests.lab.manifests import ALL_GATES, Manifests, Shared, accepted, story
from tests.lab.stage import Stage, runs, stage

#: How the driver is installed: by namespace (and file) of a demonstration, a line of the log of each of its pods.
DEMONSTRATIONS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "16xexample/nics=1+numa=2": {
        "basic-resourceclaimtemplate": {"pod0": 'GPU_DEVICE_0="gpu-0"', "pod1": 'GPU_DEVICE_1="gpu-1"'},
        "basic-multiple-requests": {"pod0": 'GPU_DEVICE_3="gpu-3"'},
        "basic-shared-claim-across-pods": {"pod0": 'GPU_DEVICE_4="gpu-4"', "pod1": 'GPU_DEVICE_4="gpu-4"'},
        "cel-selector": {"pod0": 'GPU_DEVICE_5="gpu-5"'},
        "prioritized-alternatives": {"pod0": 'GPU_DEVICE_6="gpu-6"', "pod1": 'GPU_DEVICE_7="gpu-7"'},
        "extended-resource-request": {"pod0": 'GPU_DEVICE_8="gpu-8"', "pod1": 'GPU_DEVICE_9="gpu-9"'},
        "net-consumable-capacity": {
            "pod0": 'NET_DEVICE_0_INGRESS_RATE="10000000000"', "pod1": 'NET_DEVICE_0_INGRESS_RATE="5000000000"'
        },
        "native-resource-request": {"pod0": 'CPU_DEVICE_0_CONSUMED_CPU="1"'},
        "admin-access": {"pod0": 'DRA_ADMIN_ACCESS="true"'},
    },
    "1xexample/binding": {"binding-conditions": {"pod0": 'GPU_DEVICE_0="gpu-0"'}},
    "1xexample/partitions=4": {"partitionable-devices": {"pod0": 'GPU_DEVICE_0_PARTITION_1="gpu-0-partition-1"'}},
    "1xexample/shared": {
        "gpu-allow-multiple-allocations": {"pod0": 'GPU_DEVICE_0_MEMORY="16Gi"', "pod1": 'GPU_DEVICE_0_COMPUTE="20"'}
    },
    "1xexample/partitions=4+shared": {
        "gpu-allow-multiple-allocations-partitionable": {
            "pod0": 'GPU_DEVICE_0_PARTITION_0_MEMORY="8Gi"', "pod1": 'GPU_DEVICE_0_PARTITION_0_COMPUTE="10"'
        }
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def manifests(shared: Shared) -> Manifests:
    return Manifests(shared)


async def log(on: Stage, namespace: str, pod: str, container: str = "ctr0") -> str:
    return await logs(on, await on.pod(pod, namespace), container)


@pytest.mark.parametrize("installed", DEMONSTRATIONS)
def test_a_demonstration_runs_and_its_containers_see_their_devices(manifests: Manifests, installed: str) -> None:
    async def tell() -> None:
        async with stage(ALL_GATES, fleet=[f"n1={installed}"]) as on:
            for name, wanted in DEMONSTRATIONS[installed].items():
                for tree in manifests(f"example/{name}"):
                    # One pod after the other, so that devices are given in that order.
                    await accepted(on, [tree])
                    if tree["kind"] == "Pod":
                        pod = tree["metadata"]["name"]
                        while not runs(await on.pod(pod, name)):
                            await asyncio.sleep(0.005)
                        assert wanted[pod] in await log(on, name, pod)

    story(tell)


def test_each_container_sees_the_devices_of_its_own_request_with_their_settings(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(ALL_GATES, fleet=["n1=2xexample/status"]) as on:
            name = "basic-resourceclaim-opaque-config"
            await accepted(on, manifests(f"example/{name}"))
            (pod,) = await on.running(name, 1)
            for container, here, elsewhere in (
                ("ts-ctr1", 'GPU_DEVICE_0_TIMESLICE_INTERVAL="Long"', "GPU_DEVICE_1"),
                ("sp-ctr0", 'GPU_DEVICE_1_PARTITION_COUNT="10"', "GPU_DEVICE_0"),
            ):
                told = await log(on, name, "pod0", container)
                assert here in told
                assert elsewhere not in told
            (claim,) = await on.claims(pod)
            while not claim["status"].get("devices"):
                await asyncio.sleep(0.005)
                (claim,) = await on.claims(pod)
            assert {d["device"]: d["data"]["model"]["string"] for d in claim["status"]["devices"]} == {
                "gpu-0": "LATEST-GPU-MODEL", "gpu-1": "LATEST-GPU-MODEL"
            }  # fmt: skip
            await on.client.delete(PODS, "pod0", name)
            while (await on.client.list(CLAIMS, name)).items:
                await asyncio.sleep(0.005)

    story(tell)


def test_a_gpu_that_breaks_evicts_its_pod_and_is_given_to_nobody_until_it_is_mended(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(ALL_GATES, fleet=["n1=2xexample"]) as on:
            name = "basic-resourceclaimtemplate"
            await accepted(on, manifests(f"example/{name}"))
            await on.running(name, 2)
            faults = {"metadata": {"annotations": {"allotment.dev/faults": "gpu-0=NoExecute"}}}
            await on.client.patch(NODES, "n1", faults)
            (left,) = await on.pods(name, lambda pods: len(pods) == 1)
            assert await on.devices(left) == ["gpu-1"]

    story(tell)
