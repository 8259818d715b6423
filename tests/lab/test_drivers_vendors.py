"""The vendors' examples on nodes with their drivers: prepared, inspected inside the containers, unprepared."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from allotment.cluster.resources import CLAIMS, DEPLOYMENTS, POD_GROUPS, PODS
from allotment.drivers.nvidia.compute_domain.crd import install
from allotment.lab.drivers import GATES
from allotment.model.trees import Tree
from tests.cluster_actions import is_running, is_unschedulable, scheduled_condition
from tests.lab.driver_nodes import (
    annotate,
    claim_specs,
    delete_all,
    device_statuses,
    exec_in_pod,
    hardware,
    logs,
    variables,
    wait_for_event,
    wait_for_slices,
)  # fmt: skip
from tests.lab.harness import LabHarness, lab_harness
from tests.lab.manifests import ALL_GATES, Manifests, Shared, create_accepted, run_scenario
from tests.polling import until

MIB = 1 << 20
MI300X = "mi300x=mi300x-8x-oam"


@pytest.fixture(scope="module")
def manifests(shared: Shared) -> Manifests:
    return Manifests(shared)


# --- NVIDIA ----------------------------------------------------------------------------------------------------------

#: file: mode of a DGX A100, namespace, and the GPUs (minor numbers) of each pod's containers.
WHOLE: Mapping[str, tuple[str, str, Sequence[Sequence[int]]]] = {
    "nvidia/quickstart/v1/gpu-test1": ("", "gpu-test1", [[0], [1]]),
    "nvidia/quickstart/v1/gpu-test3": ("", "gpu-test3", [[0], [0]]),
    "nvidia/quickstart/v1/gpu-test5": ("", "gpu-test5", [[0, 0, 1, 1]]),
    "nvidia/quickstart/v1beta1/gpu-test1": ("", "gpu-test1", [[0], [1]]),
    "nvidia/quickstart/v1beta1/gpu-test3": ("", "gpu-test3", [[0], [0]]),
    "nvidia/quickstart/v1beta1/gpu-test5": ("", "gpu-test5", [[0, 0, 1, 1]]),
    "nvidia/quickstart/gpu-test7": ("", "gpu-test7", [[0, 1]]),
    "nvidia/consumable-shares/integer-sharing": ("/consumable-shares=4", "gpu-share-integer", [[0]] * 4),
    "nvidia/consumable-shares/unlimited-sharing": ("/consumable-shares=unlimited", "gpu-share-unlimited", [[0]] * 2),
    "castai/01-basic": ("", "gpu-demo-basic", [[0]]),
    "castai/02-timeslicing": ("", "gpu-demo-timeslicing", [[0]] * 3),
    "castai/k8s-deployment": ("", "gpu-demo", [[0]]),
}


@pytest.mark.parametrize("file", WHOLE)
def test_each_container_sees_its_gpu(manifests: Manifests, file: str) -> None:
    mode, namespace, expected = WHOLE[file]

    async def scenario() -> None:
        async with lab_harness(fleet=(f"a100=dgx-a100-40gb{mode}",)) as lab:
            before = hardware(lab, "a100").snapshot()
            gpus = {gpu.uuid: gpu.minor for gpu in await hardware(lab, "a100").gpus()}
            await create_accepted(lab, manifests(file))
            found = []
            for pod in await lab.running(namespace, len(expected)):
                minors = []
                for container in pod["spec"]["containers"]:
                    environment = await variables(lab, pod, container["name"])
                    assert environment["NVIDIA_VISIBLE_DEVICES"] == "void"
                    (line,) = (
                        await exec_in_pod(lab, pod, "nvidia-smi", "-L", container=container["name"])
                    ).splitlines()
                    minors.append(gpus[line.split("UUID: ")[1].rstrip(")")])
                    if "nvidia-smi" in "".join(container.get("args") or ()):
                        assert line in await logs(lab, pod, container["name"])
                found.append(minors)
                assert {entry["data"]["type"] for entry in await device_statuses(lab, pod)} == {"gpu"}
            assert sorted(found) == sorted(map(list, expected))
            await delete_all(lab, namespace)
            assert hardware(lab, "a100").snapshot() == before
            assert not claim_specs(lab, "a100")

    run_scenario(scenario)


def test_one_claim_with_time_slicing_and_mps(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("a100=dgx-a100-40gb",)) as lab:
            await create_accepted(lab, manifests("nvidia/quickstart/v1/gpu-test5"))
            (pod,) = await lab.running("gpu-test5", 1)
            first, second, *_ = await hardware(lab, "a100").gpus()
            state = hardware(lab, "a100").snapshot()
            (daemon,) = state.daemons.values()
            assert (daemon.threads, daemon.memory_limits) == (50, {second.uuid: 10240})
            assert [state.cards[gpu.pci].interval for gpu in (first, second)] == [3, 0]
            assert [state.cards[gpu.pci].mode for gpu in (first, second)] == ["DEFAULT", "EXCLUSIVE_PROCESS"]
            for name, through in (("ts-ctr0", False), ("ts-ctr1", False), ("mps-ctr0", True), ("mps-ctr1", True)):
                assert ("CUDA_MPS_PIPE_DIRECTORY" in await variables(lab, pod, name)) is through

    run_scenario(scenario)


def test_an_extended_resource_is_a_gpu_of_the_driver_until_the_pod_completes(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("a100=dgx-a100-40gb",), speed=1) as lab:
            await create_accepted(lab, manifests("nvidia/extended-resources/gpu-full"))
            namespace = "extended-resource-gpu-full"
            (pod,) = await lab.running(namespace, 1)
            (gpu, *_) = await hardware(lab, "a100").gpus()
            assert gpu.uuid in await exec_in_pod(lab, pod, "nvidia-smi", "-L")
            assert "nvidia0" in (await exec_in_pod(lab, pod, "ls", "/dev")).split()
            (claim,) = await lab.claims(pod)
            assert claim["metadata"]["annotations"]["resource.kubernetes.io/extended-resource-claim"] == "true"
            await delete_all(lab, namespace)
            assert not claim_specs(lab, "a100")

    run_scenario(scenario)


def test_four_claims_share_a_gpu_and_the_fifth_gets_the_next(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("a100=2xa100-40gb/consumable-shares=4",)) as lab:
            trees = manifests("nvidia/consumable-shares/integer-sharing")
            deployment = next(tree for tree in trees if tree["kind"] == "Deployment")
            deployment["spec"]["replicas"] = 5
            await create_accepted(lab, trees)
            pods = await lab.running("gpu-share-integer", 5)
            given = sorted([name for pod in pods for name in await lab.devices(pod)])
            assert given == ["gpu-0"] * 4 + ["gpu-1"]
            (claim,) = await lab.claims(pods[0])
            (result,) = claim["status"]["allocation"]["devices"]["results"]
            assert result["consumedCapacity"]["shares"] == "1"
            (entry,) = await device_statuses(lab, pods[0])
            assert entry["shareID"] == result["shareID"]
            assert len(claim_specs(lab, "a100")) == 5

    run_scenario(scenario)


def test_a_gpu_for_a_virtual_machine_is_unbound_from_the_vendors_driver_and_bound_again(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("a100=2xa100-40gb/vfio",)) as lab:
            before = hardware(lab, "a100").snapshot()
            await create_accepted(lab, manifests("nvidia/quickstart/v1/gpu-test-vfiopci"))
            (pod,) = await lab.running("gpu-test-vfio", 1)
            (entry,) = await device_statuses(lab, pod)
            bound = [pci for pci, card in hardware(lab, "a100").snapshot().cards.items() if card.vfio]
            assert bound == [entry["data"]["pciBusID"]]
            assert (await exec_in_pod(lab, pod, "ls", "/dev/vfio")).split() == [str(entry["data"]["iommuGroup"])]
            assert "nvidia" not in await exec_in_pod(lab, pod, "ls", "/dev")
            assert (await variables(lab, pod))["NVIDIA_VISIBLE_DEVICES"] == "void"
            await delete_all(lab, "gpu-test-vfio")
            assert hardware(lab, "a100").snapshot() == before

    run_scenario(scenario)


def test_a_channel_of_a_compute_domain_is_in_its_container(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("a100=dgx-a100-40gb",)) as lab:
            file = "nvidia/imex/channel-injection"
            code, _ = await lab.post(manifests.read_one(file, "ComputeDomain"))
            assert code == 404  # before the vendor's kind is installed
            await install(lab.client)
            await wait_for_compute_domains(lab)
            await create_accepted(lab, manifests(file))
            pod = await lab.wait_for_pod(is_running, "imex-channel-injection", "default")
            assert "channel0" in (await exec_in_pod(lab, pod, "ls", "/dev/nvidia-caps-imex-channels")).split()
            assert "channel0" in await logs(lab, pod, "ctr")

            # The other example also needs another project's kind.
            code, _ = await lab.post(manifests.read_one("nvidia/imex/nvbandwidth-test-job", "MPIJob"))
            assert code == 404
            await create_accepted(lab, [manifests.read_one("nvidia/imex/nvbandwidth-test-job", "ComputeDomain")])

    run_scenario(scenario)


async def wait_for_compute_domains(lab: LabHarness) -> None:
    """Wait until the driver of ComputeDomains has published."""
    await wait_for_slices(
        lab, "a100", lambda slices: any(slice_["spec"]["driver"].startswith("compute-") for slice_ in slices)
    )


@pytest.mark.parametrize("file", ["nvidia/quickstart/v1/imex-test1", "nvidia/quickstart/v1beta1/imex-test1"])
def test_the_device_class_of_channels_that_is_no_longer_installed(manifests: Manifests, file: str) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("a100=dgx-a100-40gb",)) as lab:
            await create_accepted(lab, manifests(file))
            pods = await lab.pods("imex-test1", lambda pods: len(pods) == 8 and all(map(is_unschedulable, pods)))
            assert all(
                "device class imex.nvidia.com does not exist" in scheduled_condition(pod)["message"] for pod in pods
            )
            assert not claim_specs(lab, "a100")

    run_scenario(scenario)


def test_volta_and_later_share_by_mps_within_their_limits(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("a100=dgx-a100-40gb", "t4=t4-4x-pcie")) as lab:
            await create_accepted(lab, manifests("castai/03-mps-Volta", "castai/03-mps-preVolta"))
            pods = await lab.running("gpu-demo-mps-volta", 3)
            (daemon,) = hardware(lab, "t4").snapshot().daemons.values()
            assert (daemon.threads, list(daemon.memory_limits.values())) == (33, [1024])
            for pod in pods:
                assert (await variables(lab, pod))["CUDA_MPS_PIPE_DIRECTORY"] == "/tmp/nvidia-mps"
            assert await lab.pods(
                "gpu-demo-mps-pre-volta", lambda pods: len(pods) == 3 and all(map(is_unschedulable, pods))
            )
            await delete_all(lab, "gpu-demo-mps-volta")
            assert not hardware(lab, "t4").snapshot().daemons

    run_scenario(scenario)


def test_the_vendors_example_of_seven_mig_devices(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("a100=1xa100-40gb/dynamic-mig",)) as lab:
            await create_accepted(lab, manifests("castai/04-mig"))
            pods = await lab.running("gpu-demo-mig", 7)
            assert len({await exec_in_pod(lab, pod, "nvidia-smi", "-L") for pod in pods}) == 7
            await delete_all(lab, "gpu-demo-mig")
            (card,) = hardware(lab, "a100").snapshot().cards.values()
            assert not card.instances

    run_scenario(scenario)


def test_static_mig_devices_are_used_and_stay(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("a100=1xa100-40gb/static-mig=1g.5gb:7",)) as lab:
            before = hardware(lab, "a100").snapshot()
            await create_accepted(lab, manifests("castai/04-mig"))
            pods = await lab.running("gpu-demo-mig", 7)
            (card,) = before.cards.values()
            seen = {(await exec_in_pod(lab, pod, "nvidia-smi", "-L")).split("UUID: ")[2].rstrip(")\n") for pod in pods}
            assert seen == {instance.uuid for instance in card.instances}
            await delete_all(lab, "gpu-demo-mig")
            assert hardware(lab, "a100").snapshot() == before

    run_scenario(scenario)


# --- rejected by a driver
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "gates", "words"),
    [
        ("castai/02-timeslicing", "TimeSlicingSettings=false", "featureGates.TimeSlicingSettings=true"),
        ("castai/03-mps-Volta", "MPSSupport=false", "featureGates.MPSSupport=true"),
    ],
)
def test_disabled_sharing_is_reported_on_the_pod(manifests: Manifests, file: str, gates: str, words: str) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("t4=t4-4x-pcie",)) as lab:
            await annotate(lab, "t4", GATES, gates)
            trees = manifests(file)
            namespace = trees[0]["metadata"]["name"]
            await create_accepted(lab, trees)
            pods = await lab.pods(
                namespace, lambda pods: len(pods) == 3 and all(p["spec"].get("nodeName") for p in pods)
            )
            (name, *_) = [pod["metadata"]["name"] for pod in pods]
            message = await wait_for_event(lab, name, namespace, "FailedPrepareDynamicResources", words)
            assert message.startswith("Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareRes")
            assert "sharing.strategy" in message
            assert "permanent error" not in message  # the kubelet retries, and succeeds once the gate is enabled
            assert not claim_specs(lab, "t4")

            # After the gate is enabled, the kubelet's next attempt succeeds.
            await annotate(lab, "t4", GATES, None)
            await lab.running(namespace, 3)

    run_scenario(scenario)


def _interval(config: Tree) -> None:
    config["sharing"]["timeSlicingConfig"]["interval"] = "Longest"


def _unknown(config: Tree) -> None:
    config["sharing"]["timeslicingConfig"] = config["sharing"].pop("timeSlicingConfig")


def _mixed(config: Tree) -> None:
    config["sharing"]["strategy"] = "MPS"


def _kind(config: Tree) -> None:
    config["kind"] = "GPUConfig"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_interval, ("interval", "Longest", "Medium")),
        (_unknown, ("timeslicingConfig", "sharing")),
        (_mixed, ("timeSlicingConfig", "omit it")),
        (_kind, ("GPUConfig", "GpuConfig")),
    ],
)
def test_an_invalid_parameter_is_reported_with_the_expected_value(
    manifests: Manifests, change: Callable[[Tree], None], words: Sequence[str]
) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("a100=1xa100-40gb",)) as lab:
            trees = manifests("castai/02-timeslicing")
            claim = next(tree for tree in trees if tree["kind"] == "ResourceClaim")
            change(claim["spec"]["devices"]["config"][0]["opaque"]["parameters"])
            await create_accepted(lab, trees)
            pods = await lab.pods("gpu-demo-timeslicing", lambda pods: len(pods) == 3)
            name = pods[0]["metadata"]["name"]
            message = await wait_for_event(lab, name, "gpu-demo-timeslicing", "FailedPrepareDynamicResources")
            assert [word for word in words if word not in message] == [], message

    run_scenario(scenario)


# --- AMD -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["", "/spx@v0"])
def test_a_whole_amd_gpu_is_in_its_container(manifests: Manifests, mode: str) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=(f"{MI300X}{mode}",)) as lab:
            await create_accepted(lab, manifests("amd/example"))
            (pod,) = await lab.running("gpu-test", 1)
            (device,) = await lab.devices(pod)
            _, card, render = device.split("-")
            assert (await exec_in_pod(lab, pod, "ls", "/dev/dri")).split() == [f"card{card}", f"renderD{render}"]
            assert "kfd" in (await exec_in_pod(lab, pod, "ls", "/dev")).split()
            assert 'DRA_RESOURCE_DRIVER_NAME="gpu.amd.com"' in await logs(lab, pod, "ctr0")
            await delete_all(lab, "gpu-test")
            assert not claim_specs(lab, "mi300x")

    run_scenario(scenario)


def test_partitions_with_one_parent_by_an_unpublished_attribute(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=(f"{MI300X}/cpx@v0",)) as lab:
            await create_accepted(lab, manifests("amd/example-partitions-same-parent"))
            (pod,) = await lab.pods("gpu-test", lambda pods: len(pods) == 1 and all(map(is_unschedulable, pods)))
            assert "(constraint-attribute-unpublished)" in scheduled_condition(pod)["message"]

    run_scenario(scenario)


def test_a_gpu_is_switched_to_the_mode_that_its_claim_requests(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(ALL_GATES, fleet=(f"{MI300X}/auto",)) as lab:
            await create_accepted(lab, manifests("amd/auto-partition-spx"))
            (pod,) = await lab.running("gpu-test", 1)
            (device,) = await lab.devices(pod)
            assert device.endswith("-spx-nps1")
            assert len((await exec_in_pod(lab, pod, "ls", "/dev/dri")).split()) == 2
            (entry,) = await device_statuses(lab, pod)
            assert len(entry["data"]["partitions"]) == 1
            await delete_all(lab, "gpu-test")
            assert not claim_specs(lab, "mi300x")

    run_scenario(scenario)


# --- the example driver ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["basic-shared-claim-across-containers", "initcontainer-shared-gpu"])
def test_all_containers_of_a_pod_see_the_same_gpu(manifests: Manifests, name: str) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("n=2xexample",)) as lab:
            await create_accepted(lab, manifests(f"example/{name}"))
            (pod,) = await lab.running(name, 1)
            containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
            assert len(containers) == 2
            for container in containers:
                output = await logs(lab, pod, container["name"])
                assert 'GPU_DEVICE_0="gpu-0"' in output
                assert "GPU_DEVICE_1" not in output
            await delete_all(lab, name)
            assert not claim_specs(lab, "n")

    run_scenario(scenario)


def test_a_noexecute_rule_evicts_pods_and_blocks_new_ones(manifests: Manifests) -> None:
    folder, namespace = "example/device-taint-pod-noexecute", "basic-resourceclaimtemplate"

    async def scenario() -> None:
        async with lab_harness(ALL_GATES, fleet=("n=2xexample",)) as lab:
            await create_accepted(
                lab, manifests(f"{folder}/1-basic-resourceclaimtemplate", f"{folder}/2-pod-to-be-evicted")
            )
            await lab.running(namespace, 1)
            await create_accepted(lab, manifests(f"{folder}/3-device-taint-rule"))
            await lab.pods(namespace, lambda pods: not pods)
            assert not claim_specs(lab, "n")
            await create_accepted(lab, manifests(f"{folder}/4-pod-no-execute"))
            assert "gpu.example.com/unhealthy=true:NoExecute" in await lab.failed_scheduling(
                "pod-no-execute", namespace
            )

    run_scenario(scenario)


def test_a_noschedule_rule_keeps_running_pods(manifests: Manifests) -> None:
    folder, namespace = "example/device-taint-pod-noschedule", "basic-resourceclaimtemplate"

    async def scenario() -> None:
        async with lab_harness(ALL_GATES, fleet=("n=2xexample",)) as lab:
            await create_accepted(
                lab, manifests(f"{folder}/1-basic-resourceclaimtemplate", f"{folder}/2-pod-keeps-running")
            )
            await lab.running(namespace, 1)
            await create_accepted(lab, manifests(f"{folder}/3-device-taint-rule"))
            await create_accepted(lab, [{"apiVersion": "v1", **manifests.read_one(f"{folder}/4-pod-not-scheduled")}])
            await lab.failed_scheduling("pod-no-schedule", namespace, "(devices-tainted)")
            assert is_running(await lab.pod("pod-keeps-running", namespace))

    run_scenario(scenario)


def test_a_pod_that_tolerates_a_taint_runs_on_the_drivers_gpu(manifests: Manifests) -> None:
    folder, namespace = "example/device-taint-pod-toleration", "basic-resourceclaimtemplate"

    async def scenario() -> None:
        async with lab_harness(ALL_GATES, fleet=("n=2xexample",)) as lab:
            files = (f"{folder}/1-device-taint-rule", f"{folder}/2-basic-resourceclaimtemplate")
            await create_accepted(lab, manifests(*files))
            pod = await lab.wait_for_pod(is_running, "pod-with-toleration", namespace)
            assert 'GPU_DEVICE_0="gpu-0"' in await logs(lab, pod, "ctr0")
            await lab.failed_scheduling("pod-without-toleration", namespace, "(devices-tainted)")

    run_scenario(scenario)


def test_a_pod_is_evicted_after_its_toleration_seconds(manifests: Manifests) -> None:
    folder, namespace = "example/device-taint-configurable-pod-eviction-time", "basic-resourceclaimtemplate"

    async def scenario() -> None:
        async with lab_harness(ALL_GATES, fleet=("n=3xexample",), speed=60) as lab:
            await create_accepted(lab, manifests(f"{folder}/1-basic-resourceclaimtemplate"))
            await lab.running(namespace, 3)
            await create_accepted(lab, manifests(f"{folder}/2-device-taint-rule"))
            remaining = await lab.pods(namespace, lambda pods: len(pods) == 2)
            assert [pod["metadata"]["name"] for pod in remaining] == ["pod-with-300s-toleration", "pod-with-toleration"]
            (last,) = await lab.pods(namespace, lambda pods: len(pods) == 1)
            assert last["metadata"]["name"] == "pod-with-toleration"
            await until(lambda: len(claim_specs(lab, "n")) == 1)

    run_scenario(scenario)


def test_the_pods_of_a_group_share_its_claim_until_the_group_is_deleted(manifests: Manifests) -> None:
    namespace = "podgroup-resourceclaimtemplate"

    async def scenario() -> None:
        async with lab_harness(ALL_GATES, fleet=("n=2xexample",)) as lab:
            await create_accepted(lab, manifests("example/podgroup-resourceclaimtemplate"))
            pods = await lab.running(namespace, 4)
            given = [await lab.devices(pod) for pod in pods]
            assert given[0] == given[1] != given[2] == given[3]
            for pod, (device,) in zip(pods, given, strict=True):
                assert f'="{device}"' in await logs(lab, pod, "ctr0")
            for claim, name in zip(await claims(lab, namespace), ("group-1", "group-2"), strict=True):
                (owner,), (user,) = claim["metadata"]["ownerReferences"], claim["status"]["reservedFor"]
                consumer = (user["apiGroup"], user["resource"], user["name"], user["uid"])
                assert consumer == ("scheduling.k8s.io", "podgroups", name, owner["uid"])
            assert len(claim_specs(lab, "n")) == 2

            # A PodGroup that is being deleted stays while it has pods, and so do their claims.
            before = {pod["metadata"]["name"] for pod in pods}
            await lab.client.delete(POD_GROUPS, "group-1", namespace)
            await lab.client.delete(PODS, pods[0]["metadata"]["name"], namespace)
            await lab.pods(namespace, lambda pods: len({p["metadata"]["name"] for p in pods} - before) == 1)
            (new,) = [pod for pod in await lab.running(namespace, 4) if pod["metadata"]["name"] not in before]
            assert await lab.devices(new) == given[1]

            await lab.client.delete(DEPLOYMENTS, "group-1", namespace)
            await lab.running(namespace, 2)
            await until(lambda: len(claim_specs(lab, "n")) == 1)
            async with asyncio.timeout(120):
                while len(remaining := await claims(lab, namespace)) > 1:
                    await asyncio.sleep(0.01)
            assert remaining[0]["status"]["reservedFor"][0]["name"] == "group-2"
            (group,) = (await lab.client.list(POD_GROUPS, namespace)).items
            assert group["metadata"]["name"] == "group-2"

    run_scenario(scenario)


async def claims(lab: LabHarness, namespace: str) -> list[Tree]:
    """The claims of a namespace by name."""
    found = (await lab.client.list(CLAIMS, namespace)).items
    return sorted(found, key=lambda claim: str(claim["metadata"]["name"]))


def test_without_the_gate_pods_of_a_group_have_claims_of_their_own(manifests: Manifests) -> None:
    namespace = "podgroup-resourceclaimtemplate"

    async def scenario() -> None:
        async with lab_harness(fleet=("n=4xexample",)) as lab:
            trees = [tree for tree in manifests("example/podgroup-resourceclaimtemplate") if tree["kind"] != "PodGroup"]
            await create_accepted(lab, trees)
            pods = await lab.running(namespace, 4)
            assert len({name for pod in pods for name in await lab.devices(pod)}) == 4
            owners = [claim["metadata"]["ownerReferences"][0]["kind"] for claim in await claims(lab, namespace)]
            assert owners == ["Pod"] * 4

    run_scenario(scenario)


# --- completeness
# ------------------------------------------------------------------------------------------------------

#: Input of another program, which partitions GPUs; not a Kubernetes object.
NO_OBJECTS = {"nvidia/quickstart/mig-parted-config"}


def test_every_file_of_the_vendors_has_a_test(shared: Shared) -> None:
    root = shared("manifests")
    sources = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    for vendor in ("nvidia", "amd", "castai", "example"):
        for path in root.joinpath(vendor).rglob("*.yaml"):
            file = path.relative_to(root).with_suffix("").as_posix()
            short = file.removeprefix("example/")
            folder, _, name = file.rpartition("/")
            named = (
                f'"{file}"' in sources,
                f'"{short}"' in sources,
                f'"{folder}"' in sources and f"/{name}" in sources,
            )
            assert any(named) or file in NO_OBJECTS, file
