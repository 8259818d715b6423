"""The articles' manifests on nodes with the vendors' drivers: the devices in containers, and the state of the
hardware."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter

import pytest

from allotment.cluster.resources import DEPLOYMENTS, PODS
from allotment.drivers.nvidia.simulated.state import SimulatedState
from allotment.lab.pod_http import NoAnswer, http_get
from allotment.model.trees import Tree
from tests.cluster_actions import is_running, is_unschedulable, scheduled_condition
from tests.lab.driver_nodes import (
    claim_specs,
    delete_all,
    device_health,
    device_statuses,
    exec_in_pod,
    hardware,
    variables,
)
from tests.lab.harness import LabHarness, lab_harness
from tests.lab.manifests import Manifests, Shared, create_accepted, parents, pod_with, run_scenario, to_exactly

MIB = 1 << 20


@pytest.fixture(scope="module")
def manifests(shared: Shared) -> Manifests:
    return Manifests(shared)


def settings(state: SimulatedState) -> tuple[object, ...]:
    """The settings of GPUs, without MIG devices, whose UUIDs differ each time."""
    return state.cards, state.daemons


async def delete_and_check(lab: LabHarness, namespace: str, node: str, before: SimulatedState) -> None:
    """Delete all pods; then the hardware is as before, and no CDI spec is left."""
    await delete_all(lab, namespace)
    assert settings(hardware(lab, node).snapshot()) == settings(before)
    assert not claim_specs(lab, node)


# --- seed 1: one A100, shared and as MIG devices
# -----------------------------------------------------------------------


def test_the_deployments_container_sees_its_a100(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("t4=t4-4x-pcie", "a100=dgx-a100-40gb")) as lab:
            before = hardware(lab, "a100").snapshot()
            await create_accepted(lab, manifests("seed001-rct-ampere-20gi", "seed001-deployment-single"))
            (pod,) = await lab.running("gpu-demo", 1)
            assert pod["spec"]["nodeName"] == "a100"
            gpu = (await hardware(lab, "a100").gpus())[0]
            assert await exec_in_pod(lab, pod, "nvidia-smi", "-L") == f"GPU 0: {gpu.product} (UUID: {gpu.uuid})\n"
            environment = await variables(lab, pod)
            # CDI adds the device; a runtime hook must not add more
            assert environment["NVIDIA_VISIBLE_DEVICES"] == "void"
            assert "CUDA_MPS_PIPE_DIRECTORY" not in environment
            assert "nvidia0" in (await exec_in_pod(lab, pod, "ls", "/dev")).split()
            (entry,) = await device_statuses(lab, pod)
            assert (entry["device"], entry["data"]["uuid"]) == ("gpu-0", gpu.uuid)
            assert entry["conditions"][0]["type"] == "Ready"
            assert device_health(pod) == [("claim:gpu-0", "Healthy")]
            await delete_and_check(lab, "gpu-demo", "a100", before)
            assert not claim_specs(lab, "t4")

    run_scenario(scenario)


def test_three_pods_use_long_time_slices_on_one_gpu(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("a100=dgx-a100-40gb",)) as lab:
            before = hardware(lab, "a100").snapshot()
            await create_accepted(lab, manifests("seed001-claim-timeslicing", "seed001-deployment-timeslicing"))
            pods = await lab.running("gpu-demo", 3)
            seen = {await exec_in_pod(lab, pod, "nvidia-smi", "-L") for pod in pods}
            assert len(seen) == 1
            gpu, *others = await hardware(lab, "a100").gpus()
            assert gpu.uuid in seen.pop()
            cards = hardware(lab, "a100").snapshot().cards
            assert (cards[gpu.pci].interval, cards[gpu.pci].mode) == (3, "DEFAULT")
            assert not any(cards[other.pci].interval for other in others)
            assert len(claim_specs(lab, "a100")) == 1  # one claim, prepared once
            (entry,) = await device_statuses(lab, pods[0])
            assert entry["data"]["sharing"] == {"strategy": "TimeSlicing"}

            # It is unprepared with the last pod and not before.
            await lab.client.patch(DEPLOYMENTS, "gpu-demo-app", {"spec": {"replicas": 1}}, "gpu-demo")
            await lab.running("gpu-demo", 1)
            assert hardware(lab, "a100").snapshot().cards[gpu.pci].interval == 3
            await delete_and_check(lab, "gpu-demo", "a100", before)

    run_scenario(scenario)


def deployment_with(manifests: Manifests, request: str) -> Tree:
    """The time-slicing Deployment, for a request of the claim for MPS, which has no Deployment of its own."""
    deployment = manifests.read_one("seed001-deployment-timeslicing", "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    spec["containers"][0]["resources"]["claims"][0]["request"] = request
    return deployment


def test_three_pods_run_concurrently_through_an_mps_daemon(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("a100=dgx-a100-40gb",)) as lab:
            before = hardware(lab, "a100").snapshot()
            await create_accepted(lab, [*manifests("seed001-claim-mps"), deployment_with(manifests, "mps-gpu")])
            pods = await lab.running("gpu-demo", 3)
            gpu = (await hardware(lab, "a100").gpus())[0]
            state = hardware(lab, "a100").snapshot()
            (daemon,) = state.daemons.values()
            assert daemon.uuids == (gpu.uuid,)
            assert (daemon.threads, daemon.memory_limits) == (33, {gpu.uuid: 5120})
            assert state.cards[gpu.pci].mode == "EXCLUSIVE_PROCESS"
            for pod in pods:
                environment = await variables(lab, pod)
                assert environment["CUDA_MPS_PIPE_DIRECTORY"] == "/tmp/nvidia-mps"
                assert environment["NVIDIA_VISIBLE_DEVICES"] == "void"
                share = hardware(lab, "a100").share(environment["ALLOTMENT_GPU"].partition("#")[2])
                assert share is not None
                assert (share.strategy, share.threads, share.memory_limit) == ("mps", 33, 5120 * MIB)
            (entry,) = await device_statuses(lab, pods[0])
            assert entry["data"]["sharing"]["memoryLimit"] == "5120Mi"
            await delete_and_check(lab, "gpu-demo", "a100", before)

    run_scenario(scenario)


def test_a_container_that_names_a_missing_request_starts_without_a_device(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("a100=dgx-a100-40gb",)) as lab:
            await create_accepted(lab, [*manifests("seed001-claim-mps"), deployment_with(manifests, "ts-gpu")])
            pods = await lab.running("gpu-demo", 3)
            assert await exec_in_pod(lab, pods[0], "nvidia-smi", "-L") == "No devices were found\n"
            environment = await variables(lab, pods[0])
            assert not environment.keys() & {"NVIDIA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "ALLOTMENT_GPU"}
            assert hardware(lab, "a100").snapshot().daemons  # the claim is prepared even if no container uses it

    run_scenario(scenario)


def test_the_eighth_pod_waits_until_one_of_seven_mig_devices_is_free(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("a100=1xa100-40gb/dynamic-mig",)) as lab:
            before = hardware(lab, "a100").snapshot()
            template = manifests.read_one("seed001-rct-mig")
            template["metadata"]["namespace"] = "gpu-demo"
            await create_accepted(lab, [template, *manifests("seed001-deployment-mig")])
            pods = await lab.running("gpu-demo", 7)
            (gpu,) = await hardware(lab, "a100").gpus()
            created = {device.uuid: device for device in await hardware(lab, "a100").mig_devices(gpu.pci)}
            assert sorted(device.start for device in created.values()) == list(range(7))
            used = set()
            for pod in pods:
                (entry,) = await device_statuses(lab, pod)
                uuid = entry["data"]["uuid"]
                used.add(uuid)
                head, line = (await exec_in_pod(lab, pod, "nvidia-smi", "-L")).splitlines()
                assert head == f"GPU 0: {gpu.product} (UUID: {gpu.uuid})"
                assert line.split() == ["MIG", "1g.5gb", "Device", "0:", "(UUID:", f"{uuid})"]
                assert (await variables(lab, pod))["NVIDIA_VISIBLE_DEVICES"] == "void"
                assert len((await exec_in_pod(lab, pod, "ls", "/dev/nvidia-caps")).split()) == 2
                assert device_health(pod) == [("claim:mig-1g-5gb", "Healthy")]
            assert used == created.keys()

            await lab.client.patch(DEPLOYMENTS, "gpu-demo-mig", {"spec": {"replicas": 8}}, "gpu-demo")
            pods = await lab.pods("gpu-demo", lambda pods: len(pods) == 8 and any(map(is_unschedulable, pods)))
            (remaining,) = [pod for pod in pods if not is_running(pod)]
            assert "1 cannot allocate all claims" in scheduled_condition(remaining)["message"]
            first = next(pod for pod in pods if is_running(pod))
            await lab.client.delete(PODS, first["metadata"]["name"], "gpu-demo")
            await lab.wait_for_pod(is_running, remaining["metadata"]["name"], "gpu-demo")
            now = {device.uuid for device in await hardware(lab, "a100").mig_devices(gpu.pci)}
            assert len(now) == 7
            assert len(now - created.keys()) == 1  # created again for the eighth
            await delete_and_check(lab, "gpu-demo", "a100", before)

    run_scenario(scenario)


def test_pods_end_immediately_while_they_draw(manifests: Manifests) -> None:
    """A MIG device in use cannot be deleted; a container that was stopped does not use it any more."""

    async def scenario() -> None:
        # At this speed, a driver that must be called again would take longer than the test's timeout.
        async with lab_harness(fleet=("a100=1xa100-40gb/dynamic-mig",), speed=1) as lab:
            before = hardware(lab, "a100").snapshot()
            template = manifests.read_one("seed001-rct-mig")
            template["metadata"]["namespace"] = "gpu-demo"
            deployment, *_ = manifests("seed001-deployment-mig")
            long = {"WIDTH": "64", "HEIGHT": "40", "GPU_WORK": "10000"}
            (container,) = deployment["spec"]["template"]["spec"]["containers"]
            container["env"] = [{"name": name, "value": value} for name, value in long.items()]
            await create_accepted(lab, [template, deployment])
            pods = await lab.running("gpu-demo", 7)
            kubelets = lab.plane.environment.kubelets
            drawing = [asyncio.create_task(http_get(kubelets, pod, 5000, "/image.png")) for pod in pods]
            await asyncio.sleep(0.3)
            assert not any(task.done() for task in drawing)
            await delete_and_check(lab, "gpu-demo", "a100", before)
            for answer in await asyncio.gather(*drawing, return_exceptions=True):
                assert isinstance(answer, NoAnswer)

    run_scenario(scenario)


# --- seed 2: pairs of MIG devices
# --------------------------------------------------------------------------------------


def test_pairs_of_mig_devices_of_one_gpu_are_created_and_deleted(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("h100=2xh100-80gb/dynamic-mig",)) as lab:
            before = hardware(lab, "h100").snapshot()
            assert not any(card.mig for card in before.cards.values())
            template, deployment = manifests("seed002-mig-mixed")
            devices = template["spec"]["spec"]["devices"]
            devices["requests"] = [to_exactly(request) for request in devices["requests"]]
            await create_accepted(lab, [template, deployment])
            pods = await lab.running("default", 2)
            cards = hardware(lab, "h100").snapshot().cards
            assert [(card.mig, len(card.instances)) for card in cards.values()] == [(True, 2)] * 2
            for pod in pods:
                assert len(await parents(lab, await lab.devices(pod))) == 1
                large, small = [entry["data"]["uuid"] for entry in await device_statuses(lab, pod, 2)]
                first = await exec_in_pod(lab, pod, "nvidia-smi", "-L", container="primary-model")
                second = await exec_in_pod(lab, pod, "nvidia-smi", "-L", container="embedding-model")
                # Each container names its own request of the claim, and gets no device of the other one.
                assert ("MIG 3g.40gb" in first, large in first, small in first) == (True, True, False)
                assert ("MIG 1g.10gb" in second, small in second, large in second) == (True, True, False)
                assert device_health(pod, 0)[0][0] != device_health(pod, 1)[0][0]
            await delete_and_check(lab, "default", "h100", before)

    run_scenario(scenario)


# --- seed 4: containers, partitions ----------------------------------------------------------------------------------


def test_both_containers_of_a_pod_get_the_one_gpu_of_their_claim(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("a100=dgx-a100-40gb",)) as lab:
            before = hardware(lab, "a100").snapshot()
            template = manifests.read_one("nvidia/quickstart/v1/gpu-test1", "ResourceClaimTemplate")
            template["metadata"]["namespace"] = "gpu-test2"
            await create_accepted(lab, [template, *manifests("seed004-pod-gpu-test2")])
            (pod,) = await lab.running("gpu-test2", 1)
            first, second = [
                await exec_in_pod(lab, pod, "nvidia-smi", "-L", container=name) for name in ("ctr0", "ctr1")
            ]
            assert first == second
            assert "UUID: GPU-" in first
            for name in ("ctr0", "ctr1"):
                assert (await variables(lab, pod, name))["NVIDIA_VISIBLE_DEVICES"] == "void"
            assert len(claim_specs(lab, "a100")) == 1
            await delete_and_check(lab, "gpu-test2", "a100", before)

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("mode", "key"), [("cpx@v0", "gpu.amd.com/parentDeviceID"), ("cpx@v1", "resource.kubernetes.io/pciBusID")]
)
def test_two_partitions_of_one_card_by_the_key_of_each_generation(manifests: Manifests, mode: str, key: str) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=(f"mi300x=mi300x-8x-oam/{mode}",)) as lab:
            claim = copy.deepcopy(manifests.read_one("seed004-claim-two-partitions"))
            claim["spec"]["devices"]["constraints"][0]["matchAttribute"] = key
            await create_accepted(lab, [claim, pod_with("two-partitions-same-parent", namespace="gpu-test")])
            (pod,) = await lab.running("gpu-test", 1)
            first, second = await lab.devices(pod)
            assert first != second
            domain, _, name = key.rpartition("/")
            assert len(await parents(lab, [first, second], name if domain == "gpu.amd.com" else key)) == 1
            nodes = (await exec_in_pod(lab, pod, "ls", "/dev/dri")).split()
            assert Counter(node.rstrip("0123456789") for node in nodes) == {"card": 2, "renderD": 2}
            assert "kfd" in (await exec_in_pod(lab, pod, "ls", "/dev")).split()
            assert (await variables(lab, pod))["DRA_RESOURCE_DRIVER_NAME"] == "gpu.amd.com"
            await delete_all(lab, "gpu-test")
            assert not claim_specs(lab, "mi300x")

    run_scenario(scenario)
