"""The articles' manifests on nodes with the vendors' drivers: what containers get, and what becomes of the hardware."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter

import pytest

from allotment.cluster.resources import DEPLOYMENTS, PODS
from allotment.drivers.nvidia.simulated.state import SimulatedState
from allotment.lab.pod_http import NoAnswer, http_get
from allotment.model.trees import Tree
from tests.lab.driven import claim_files, gone, hardware, healths, run, statuses, variables
from tests.lab.manifests import Manifests, Shared, accepted, exactly, parents, pod_with, story
from tests.lab.stage import Stage, condition, runs, stage, waits

MIB = 1 << 20


@pytest.fixture(scope="module")
def manifests(shared: Shared) -> Manifests:
    return Manifests(shared)


def settings(state: SimulatedState) -> tuple[object, ...]:
    """What GPUs are set to; MIG devices have other UUIDs each time."""
    return state.cards, state.daemons


async def ended(on: Stage, namespace: str, node: str, before: SimulatedState) -> None:
    """Delete all that runs; then the hardware is as it was, and no container could get anything of it any more."""
    await gone(on, namespace)
    assert settings(hardware(on, node).snapshot()) == settings(before)
    assert not claim_files(on, node)


# --- seed 1: one A100, shared and in slices --------------------------------------------------------------------------


def test_the_deployment_s_container_sees_its_a100(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=("t4=t4-4x-pcie", "a100=dgx-a100-40gb")) as on:
            before = hardware(on, "a100").snapshot()
            await accepted(on, manifests("seed001-rct-ampere-20gi", "seed001-deployment-single"))
            (pod,) = await on.running("gpu-demo", 1)
            assert pod["spec"]["nodeName"] == "a100"
            gpu = (await hardware(on, "a100").gpus())[0]
            assert await run(on, pod, "nvidia-smi", "-L") == f"GPU 0: {gpu.product} (UUID: {gpu.uuid})\n"
            environment = await variables(on, pod)
            assert environment["NVIDIA_VISIBLE_DEVICES"] == "void"  # CDI brought the device, no hook shall bring more
            assert "CUDA_MPS_PIPE_DIRECTORY" not in environment
            assert "nvidia0" in (await run(on, pod, "ls", "/dev")).split()
            (entry,) = await statuses(on, pod)
            assert (entry["device"], entry["data"]["uuid"]) == ("gpu-0", gpu.uuid)
            assert entry["conditions"][0]["type"] == "Ready"
            assert healths(pod) == [("claim:gpu-0", "Healthy")]
            await ended(on, "gpu-demo", "a100", before)
            assert not claim_files(on, "t4")

    story(tell)


def test_three_pods_take_long_turns_on_one_gpu(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=("a100=dgx-a100-40gb",)) as on:
            before = hardware(on, "a100").snapshot()
            await accepted(on, manifests("seed001-claim-timeslicing", "seed001-deployment-timeslicing"))
            pods = await on.running("gpu-demo", 3)
            seen = {await run(on, pod, "nvidia-smi", "-L") for pod in pods}
            assert len(seen) == 1
            gpu, *others = await hardware(on, "a100").gpus()
            assert gpu.uuid in seen.pop()
            cards = hardware(on, "a100").snapshot().cards
            assert (cards[gpu.pci].interval, cards[gpu.pci].mode) == (3, "DEFAULT")
            assert not any(cards[other.pci].interval for other in others)
            assert len(claim_files(on, "a100")) == 1  # one claim, prepared once
            (entry,) = await statuses(on, pods[0])
            assert entry["data"]["sharing"] == {"strategy": "TimeSlicing"}

            # It is undone with the last pod, not before.
            await on.client.patch(DEPLOYMENTS, "gpu-demo-app", {"spec": {"replicas": 1}}, "gpu-demo")
            await on.running("gpu-demo", 1)
            assert hardware(on, "a100").snapshot().cards[gpu.pci].interval == 3
            await ended(on, "gpu-demo", "a100", before)

    story(tell)


def deployment_with(manifests: Manifests, request: str) -> Tree:
    """The time-slicing Deployment, for a request of the claim for MPS, which comes without one of its own."""
    deployment = manifests.one("seed001-deployment-timeslicing", "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    spec["containers"][0]["resources"]["claims"][0]["request"] = request
    return deployment


def test_three_pods_run_side_by_side_through_an_mps_daemon(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=("a100=dgx-a100-40gb",)) as on:
            before = hardware(on, "a100").snapshot()
            await accepted(on, [*manifests("seed001-claim-mps"), deployment_with(manifests, "mps-gpu")])
            pods = await on.running("gpu-demo", 3)
            gpu = (await hardware(on, "a100").gpus())[0]
            state = hardware(on, "a100").snapshot()
            (daemon,) = state.daemons.values()
            assert daemon.uuids == (gpu.uuid,)
            assert (daemon.threads, daemon.memory_limits) == (33, {gpu.uuid: 5120})
            assert state.cards[gpu.pci].mode == "EXCLUSIVE_PROCESS"
            for pod in pods:
                environment = await variables(on, pod)
                assert environment["CUDA_MPS_PIPE_DIRECTORY"] == "/tmp/nvidia-mps"
                assert environment["NVIDIA_VISIBLE_DEVICES"] == "void"
                share = hardware(on, "a100").share(environment["ALLOTMENT_GPU"].partition("#")[2])
                assert share is not None
                assert (share.strategy, share.threads, share.memory_limit) == ("mps", 33, 5120 * MIB)
            (entry,) = await statuses(on, pods[0])
            assert entry["data"]["sharing"]["memoryLimit"] == "5120Mi"
            await ended(on, "gpu-demo", "a100", before)

    story(tell)


def test_a_container_that_names_a_request_that_is_not_there_starts_without_a_device(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=("a100=dgx-a100-40gb",)) as on:
            await accepted(on, [*manifests("seed001-claim-mps"), deployment_with(manifests, "ts-gpu")])
            pods = await on.running("gpu-demo", 3)
            assert await run(on, pods[0], "nvidia-smi", "-L") == "No devices were found\n"
            environment = await variables(on, pods[0])
            assert not environment.keys() & {"NVIDIA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "ALLOTMENT_GPU"}
            assert hardware(on, "a100").snapshot().daemons  # the claim is prepared, whoever uses it

    story(tell)


def test_seven_slices_the_eighth_pod_waits_and_runs_when_one_is_free(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=("a100=1xa100-40gb/dynamic-mig",)) as on:
            before = hardware(on, "a100").snapshot()
            template = manifests.one("seed001-rct-mig")
            template["metadata"]["namespace"] = "gpu-demo"
            await accepted(on, [template, *manifests("seed001-deployment-mig")])
            pods = await on.running("gpu-demo", 7)
            (gpu,) = await hardware(on, "a100").gpus()
            made = {device.uuid: device for device in await hardware(on, "a100").mig_devices(gpu.pci)}
            assert sorted(device.start for device in made.values()) == list(range(7))
            used = set()
            for pod in pods:
                (entry,) = await statuses(on, pod)
                uuid = entry["data"]["uuid"]
                used.add(uuid)
                head, line = (await run(on, pod, "nvidia-smi", "-L")).splitlines()
                assert head == f"GPU 0: {gpu.product} (UUID: {gpu.uuid})"
                assert line.split() == ["MIG", "1g.5gb", "Device", "0:", "(UUID:", f"{uuid})"]
                assert (await variables(on, pod))["NVIDIA_VISIBLE_DEVICES"] == "void"
                assert len((await run(on, pod, "ls", "/dev/nvidia-caps")).split()) == 2
                assert healths(pod) == [("claim:mig-1g-5gb", "Healthy")]
            assert used == made.keys()

            await on.client.patch(DEPLOYMENTS, "gpu-demo-mig", {"spec": {"replicas": 8}}, "gpu-demo")
            pods = await on.pods("gpu-demo", lambda pods: len(pods) == 8 and any(map(waits, pods)))
            (left,) = [pod for pod in pods if not runs(pod)]
            assert "1 cannot allocate all claims" in condition(left)["message"]
            first = next(pod for pod in pods if runs(pod))
            await on.client.delete(PODS, first["metadata"]["name"], "gpu-demo")
            await on.until(runs, left["metadata"]["name"], "gpu-demo")
            now = {device.uuid for device in await hardware(on, "a100").mig_devices(gpu.pci)}
            assert len(now) == 7
            assert len(now - made.keys()) == 1  # made anew for the eighth
            await ended(on, "gpu-demo", "a100", before)

    story(tell)


def test_pods_end_at_once_in_the_middle_of_a_picture(manifests: Manifests) -> None:
    """What runs on a slice keeps it from being destroyed; a container that was ended does not."""

    async def tell() -> None:
        # At this speed, a driver that had to be asked again would take longer than anybody waits here.
        async with stage(fleet=("a100=1xa100-40gb/dynamic-mig",), speed=1) as on:
            before = hardware(on, "a100").snapshot()
            template = manifests.one("seed001-rct-mig")
            template["metadata"]["namespace"] = "gpu-demo"
            deployment, *_ = manifests("seed001-deployment-mig")
            long = {"WIDTH": "64", "HEIGHT": "40", "GPU_WORK": "10000"}
            (container,) = deployment["spec"]["template"]["spec"]["containers"]
            container["env"] = [{"name": name, "value": value} for name, value in long.items()]
            await accepted(on, [template, deployment])
            pods = await on.running("gpu-demo", 7)
            kubelets = on.plane.environment.kubelets
            drawing = [asyncio.create_task(http_get(kubelets, pod, 5000, "/image.png")) for pod in pods]
            await asyncio.sleep(0.3)
            assert not any(task.done() for task in drawing)
            await ended(on, "gpu-demo", "a100", before)
            for answer in await asyncio.gather(*drawing, return_exceptions=True):
                assert isinstance(answer, NoAnswer)

    story(tell)


# --- seed 2: MIG pairs -----------------------------------------------------------------------------------------------


def test_pairs_of_slices_of_one_gpu_are_made_and_unmade(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=("h100=2xh100-80gb/dynamic-mig",)) as on:
            before = hardware(on, "h100").snapshot()
            assert not any(card.mig for card in before.cards.values())
            template, deployment = manifests("seed002-mig-mixed")
            devices = template["spec"]["spec"]["devices"]
            devices["requests"] = [exactly(request) for request in devices["requests"]]
            await accepted(on, [template, deployment])
            pods = await on.running("default", 2)
            cards = hardware(on, "h100").snapshot().cards
            assert [(card.mig, len(card.instances)) for card in cards.values()] == [(True, 2)] * 2
            for pod in pods:
                assert len(await parents(on, await on.devices(pod))) == 1
                large, small = [entry["data"]["uuid"] for entry in await statuses(on, pod, 2)]
                first = await run(on, pod, "nvidia-smi", "-L", container="primary-model")
                second = await run(on, pod, "nvidia-smi", "-L", container="embedding-model")
                # Each container names its request of the claim, and has nothing of the other one's.
                assert ("MIG 3g.40gb" in first, large in first, small in first) == (True, True, False)
                assert ("MIG 1g.10gb" in second, small in second, large in second) == (True, True, False)
                assert healths(pod, 0)[0][0] != healths(pod, 1)[0][0]
            await ended(on, "default", "h100", before)

    story(tell)


# --- seed 4: containers, partitions ----------------------------------------------------------------------------------


def test_both_containers_of_a_pod_get_the_one_gpu_of_their_claim(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=("a100=dgx-a100-40gb",)) as on:
            before = hardware(on, "a100").snapshot()
            template = manifests.one("nvidia/quickstart/v1/gpu-test1", "ResourceClaimTemplate")
            template["metadata"]["namespace"] = "gpu-test2"
            await accepted(on, [template, *manifests("seed004-pod-gpu-test2")])
            (pod,) = await on.running("gpu-test2", 1)
            first, second = [await run(on, pod, "nvidia-smi", "-L", container=name) for name in ("ctr0", "ctr1")]
            assert first == second
            assert "UUID: GPU-" in first
            for name in ("ctr0", "ctr1"):
                assert (await variables(on, pod, name))["NVIDIA_VISIBLE_DEVICES"] == "void"
            assert len(claim_files(on, "a100")) == 1
            await ended(on, "gpu-test2", "a100", before)

    story(tell)


@pytest.mark.parametrize(
    ("mode", "key"), [("cpx@v0", "gpu.amd.com/parentDeviceID"), ("cpx@v1", "resource.kubernetes.io/pciBusID")]
)
def test_two_partitions_of_one_card_by_the_key_of_each_generation(manifests: Manifests, mode: str, key: str) -> None:
    async def tell() -> None:
        async with stage(fleet=(f"mi300x=mi300x-8x-oam/{mode}",)) as on:
            claim = copy.deepcopy(manifests.one("seed004-claim-two-partitions"))
            claim["spec"]["devices"]["constraints"][0]["matchAttribute"] = key
            await accepted(on, [claim, pod_with("two-partitions-same-parent", namespace="gpu-test")])
            (pod,) = await on.running("gpu-test", 1)
            first, second = await on.devices(pod)
            assert first != second
            domain, _, name = key.rpartition("/")
            assert len(await parents(on, [first, second], name if domain == "gpu.amd.com" else key)) == 1
            nodes = (await run(on, pod, "ls", "/dev/dri")).split()
            assert Counter(node.rstrip("0123456789") for node in nodes) == {"card": 2, "renderD": 2}
            assert "kfd" in (await run(on, pod, "ls", "/dev")).split()
            assert (await variables(on, pod))["DRA_RESOURCE_DRIVER_NAME"] == "gpu.amd.com"
            await gone(on, "gpu-test")
            assert not claim_files(on, "mi300x")

    story(tell)
