"""Kubernetes' example driver in a lab: its demonstrations run, and the containers' environment describes their
devices."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from allotment.cluster.resources import CLAIMS, NODES, PODS
from tests.cluster_actions import is_running
from tests.lab.driver_nodes import logs
from tests.lab.harness import LabHarness, lab_harness
from tests.lab.manifests import ALL_GATES, Manifests, Shared, create_accepted, run_scenario

#: Installations of the driver: by namespace (and file) of a demonstration, a line in the log of each of its pods.
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


async def log(lab: LabHarness, namespace: str, pod: str, container: str = "ctr0") -> str:
    return await logs(lab, await lab.pod(pod, namespace), container)


@pytest.mark.parametrize("installed", DEMONSTRATIONS)
def test_a_demonstration_runs_and_its_containers_see_their_devices(manifests: Manifests, installed: str) -> None:
    async def scenario() -> None:
        async with lab_harness(ALL_GATES, fleet=[f"n1={installed}"]) as lab:
            for name, expected in DEMONSTRATIONS[installed].items():
                for tree in manifests(f"example/{name}"):
                    # One pod after the other, so that devices are allocated in that order.
                    await create_accepted(lab, [tree])
                    if tree["kind"] == "Pod":
                        pod = tree["metadata"]["name"]
                        while not is_running(await lab.pod(pod, name)):
                            await asyncio.sleep(0.005)
                        assert expected[pod] in await log(lab, name, pod)

    run_scenario(scenario)


def test_each_container_sees_the_devices_of_its_own_request_with_their_settings(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(ALL_GATES, fleet=["n1=2xexample/status"]) as lab:
            name = "basic-resourceclaim-opaque-config"
            await create_accepted(lab, manifests(f"example/{name}"))
            (pod,) = await lab.running(name, 1)
            for container, here, elsewhere in (
                ("ts-ctr1", 'GPU_DEVICE_0_TIMESLICE_INTERVAL="Long"', "GPU_DEVICE_1"),
                ("sp-ctr0", 'GPU_DEVICE_1_PARTITION_COUNT="10"', "GPU_DEVICE_0"),
            ):
                output = await log(lab, name, "pod0", container)
                assert here in output
                assert elsewhere not in output
            (claim,) = await lab.claims(pod)
            while not claim["status"].get("devices"):
                await asyncio.sleep(0.005)
                (claim,) = await lab.claims(pod)
            assert {d["device"]: d["data"]["model"]["string"] for d in claim["status"]["devices"]} == {
                "gpu-0": "LATEST-GPU-MODEL", "gpu-1": "LATEST-GPU-MODEL"
            }  # fmt: skip
            await lab.client.delete(PODS, "pod0", name)
            while (await lab.client.list(CLAIMS, name)).items:
                await asyncio.sleep(0.005)

    run_scenario(scenario)


def test_a_gpu_that_fails_evicts_its_pod_and_is_not_allocated_until_it_is_repaired(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(ALL_GATES, fleet=["n1=2xexample"]) as lab:
            name = "basic-resourceclaimtemplate"
            await create_accepted(lab, manifests(f"example/{name}"))
            await lab.running(name, 2)
            faults = {"metadata": {"annotations": {"allotment.dev/faults": "gpu-0=NoExecute"}}}
            await lab.client.patch(NODES, "n1", faults)
            (remaining,) = await lab.pods(name, lambda pods: len(pods) == 1)
            assert await lab.devices(remaining) == ["gpu-1"]

    run_scenario(scenario)
