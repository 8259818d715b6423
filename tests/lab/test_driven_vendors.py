"""The vendors' examples on nodes with their drivers: prepared, seen from inside the containers, undone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from allotment.cluster.resources import CLAIMS, DEPLOYMENTS, POD_GROUPS, PODS
from allotment.drivers.nvidia.compute_domain.crd import install
from allotment.lab.drivers import GATES
from allotment.model.trees import Tree
from tests.lab.driven import (
    annotate,
    claim_files,
    event,
    gone,
    hardware,
    logs,
    published,
    run,
    statuses,
    variables,
)  # fmt: skip
from tests.lab.manifests import ALL_GATES, Manifests, Shared, accepted, story
from tests.lab.stage import Stage, condition, runs, stage, waits
from tests.waiting import until

MIB = 1 << 20
MI300X = "mi300x=mi300x-8x-oam"


@pytest.fixture(scope="module")
def manifests(shared: Shared) -> Manifests:
    return Manifests(shared)


# --- NVIDIA ----------------------------------------------------------------------------------------------------------

#: file: mode of a DGX A100, namespace, and the GPUs (minors) of each pod's containers.
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
    mode, namespace, wanted = WHOLE[file]

    async def tell() -> None:
        async with stage(fleet=(f"a100=dgx-a100-40gb{mode}",)) as on:
            before = hardware(on, "a100").snapshot()
            gpus = {gpu.uuid: gpu.minor for gpu in await hardware(on, "a100").gpus()}
            await accepted(on, manifests(file))
            found = []
            for pod in await on.running(namespace, len(wanted)):
                minors = []
                for container in pod["spec"]["containers"]:
                    environment = await variables(on, pod, container["name"])
                    assert environment["NVIDIA_VISIBLE_DEVICES"] == "void"
                    (line,) = (await run(on, pod, "nvidia-smi", "-L", container=container["name"])).splitlines()
                    minors.append(gpus[line.split("UUID: ")[1].rstrip(")")])
                    if "nvidia-smi" in "".join(container.get("args") or ()):
                        assert line in await logs(on, pod, container["name"])
                found.append(minors)
                assert {entry["data"]["type"] for entry in await statuses(on, pod)} == {"gpu"}
            assert sorted(found) == sorted(map(list, wanted))
            await gone(on, namespace)
            assert hardware(on, "a100").snapshot() == before
            assert not claim_files(on, "a100")

    story(tell)


def test_one_claim_for_turns_and_for_mps(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=("a100=dgx-a100-40gb",)) as on:
            await accepted(on, manifests("nvidia/quickstart/v1/gpu-test5"))
            (pod,) = await on.running("gpu-test5", 1)
            first, second, *_ = await hardware(on, "a100").gpus()
            state = hardware(on, "a100").snapshot()
            (daemon,) = state.daemons.values()
            assert (daemon.threads, daemon.memory_limits) == (50, {second.uuid: 10240})
            assert [state.cards[gpu.pci].interval for gpu in (first, second)] == [3, 0]
            assert [state.cards[gpu.pci].mode for gpu in (first, second)] == ["DEFAULT", "EXCLUSIVE_PROCESS"]
            for name, through in (("ts-ctr0", False), ("ts-ctr1", False), ("mps-ctr0", True), ("mps-ctr1", True)):
                assert ("CUDA_MPS_PIPE_DIRECTORY" in await variables(on, pod, name)) is through

    story(tell)


def test_an_extended_resource_is_a_gpu_of_the_driver_until_its_work_is_done(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=("a100=dgx-a100-40gb",), speed=1) as on:
            await accepted(on, manifests("nvidia/extended-resources/gpu-full"))
            namespace = "extended-resource-gpu-full"
            (pod,) = await on.running(namespace, 1)
            (gpu, *_) = await hardware(on, "a100").gpus()
            assert gpu.uuid in await run(on, pod, "nvidia-smi", "-L")
            assert "nvidia0" in (await run(on, pod, "ls", "/dev")).split()
            (claim,) = await on.claims(pod)
            assert claim["metadata"]["annotations"]["resource.kubernetes.io/extended-resource-claim"] == "true"
            await gone(on, namespace)
            assert not claim_files(on, "a100")

    story(tell)


def test_four_claims_share_a_gpu_and_the_fifth_gets_the_next(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=("a100=2xa100-40gb/consumable-shares=4",)) as on:
            trees = manifests("nvidia/consumable-shares/integer-sharing")
            deployment = next(tree for tree in trees if tree["kind"] == "Deployment")
            deployment["spec"]["replicas"] = 5
            await accepted(on, trees)
            pods = await on.running("gpu-share-integer", 5)
            given = sorted([name for pod in pods for name in await on.devices(pod)])
            assert given == ["gpu-0"] * 4 + ["gpu-1"]
            (claim,) = await on.claims(pods[0])
            (result,) = claim["status"]["allocation"]["devices"]["results"]
            assert result["consumedCapacity"]["shares"] == "1"
            (entry,) = await statuses(on, pods[0])
            assert entry["shareID"] == result["shareID"]
            assert len(claim_files(on, "a100")) == 5

    story(tell)


def test_a_gpu_for_a_virtual_machine_leaves_the_vendor_s_driver_and_comes_back(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=("a100=2xa100-40gb/vfio",)) as on:
            before = hardware(on, "a100").snapshot()
            await accepted(on, manifests("nvidia/quickstart/v1/gpu-test-vfiopci"))
            (pod,) = await on.running("gpu-test-vfio", 1)
            (entry,) = await statuses(on, pod)
            bound = [pci for pci, card in hardware(on, "a100").snapshot().cards.items() if card.vfio]
            assert bound == [entry["data"]["pciBusID"]]
            assert (await run(on, pod, "ls", "/dev/vfio")).split() == [str(entry["data"]["iommuGroup"])]
            assert "nvidia" not in await run(on, pod, "ls", "/dev")
            assert (await variables(on, pod))["NVIDIA_VISIBLE_DEVICES"] == "void"
            await gone(on, "gpu-test-vfio")
            assert hardware(on, "a100").snapshot() == before

    story(tell)


def test_a_channel_of_a_compute_domain_is_in_its_container(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=("a100=dgx-a100-40gb",)) as on:
            file = "nvidia/imex/channel-injection"
            code, _ = await on.post(manifests.one(file, "ComputeDomain"))
            assert code == 404  # before the vendor's kind is installed
            await install(on.client)
            await served(on)
            await accepted(on, manifests(file))
            pod = await on.until(runs, "imex-channel-injection", "default")
            assert "channel0" in (await run(on, pod, "ls", "/dev/nvidia-caps-imex-channels")).split()
            assert "channel0" in await logs(on, pod, "ctr")

            # The other example wants a kind of somebody else's, too.
            code, _ = await on.post(manifests.one("nvidia/imex/nvbandwidth-test-job", "MPIJob"))
            assert code == 404
            await accepted(on, [manifests.one("nvidia/imex/nvbandwidth-test-job", "ComputeDomain")])

    story(tell)


async def served(on: Stage) -> None:
    """Wait until the driver of ComputeDomains has published."""
    await published(on, "a100", lambda slices: any(one["spec"]["driver"].startswith("compute-") for one in slices))


@pytest.mark.parametrize("file", ["nvidia/quickstart/v1/imex-test1", "nvidia/quickstart/v1beta1/imex-test1"])
def test_the_class_of_channels_that_is_installed_no_more(manifests: Manifests, file: str) -> None:
    async def tell() -> None:
        async with stage(fleet=("a100=dgx-a100-40gb",)) as on:
            await accepted(on, manifests(file))
            pods = await on.pods("imex-test1", lambda pods: len(pods) == 8 and all(map(waits, pods)))
            assert all("device class imex.nvidia.com does not exist" in condition(pod)["message"] for pod in pods)
            assert not claim_files(on, "a100")

    story(tell)


def test_volta_and_later_share_by_mps_within_their_limits(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=("a100=dgx-a100-40gb", "t4=t4-4x-pcie")) as on:
            await accepted(on, manifests("castai/03-mps-Volta", "castai/03-mps-preVolta"))
            pods = await on.running("gpu-demo-mps-volta", 3)
            (daemon,) = hardware(on, "t4").snapshot().daemons.values()
            assert (daemon.threads, list(daemon.memory_limits.values())) == (33, [1024])
            for pod in pods:
                assert (await variables(on, pod))["CUDA_MPS_PIPE_DIRECTORY"] == "/tmp/nvidia-mps"
            assert await on.pods("gpu-demo-mps-pre-volta", lambda pods: len(pods) == 3 and all(map(waits, pods)))
            await gone(on, "gpu-demo-mps-volta")
            assert not hardware(on, "t4").snapshot().daemons

    story(tell)


def test_seven_slices_in_the_vendor_s_own_words(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=("a100=1xa100-40gb/dynamic-mig",)) as on:
            await accepted(on, manifests("castai/04-mig"))
            pods = await on.running("gpu-demo-mig", 7)
            assert len({await run(on, pod, "nvidia-smi", "-L") for pod in pods}) == 7
            await gone(on, "gpu-demo-mig")
            (card,) = hardware(on, "a100").snapshot().cards.values()
            assert not card.instances

    story(tell)


def test_fixed_slices_are_used_and_stay(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=("a100=1xa100-40gb/static-mig=1g.5gb:7",)) as on:
            before = hardware(on, "a100").snapshot()
            await accepted(on, manifests("castai/04-mig"))
            pods = await on.running("gpu-demo-mig", 7)
            (card,) = before.cards.values()
            seen = {(await run(on, pod, "nvidia-smi", "-L")).split("UUID: ")[2].rstrip(")\n") for pod in pods}
            assert seen == {instance.uuid for instance in card.instances}
            await gone(on, "gpu-demo-mig")
            assert hardware(on, "a100").snapshot() == before

    story(tell)


# --- what a driver refuses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "gates", "told"),
    [
        ("castai/02-timeslicing", "TimeSlicingSettings=false", "featureGates.TimeSlicingSettings=true"),
        ("castai/03-mps-Volta", "MPSSupport=false", "featureGates.MPSSupport=true"),
    ],
)
def test_sharing_that_is_switched_off_is_told_by_the_pod(
    manifests: Manifests, file: str, gates: str, told: str
) -> None:
    async def tell() -> None:
        async with stage(fleet=("t4=t4-4x-pcie",)) as on:
            await annotate(on, "t4", GATES, gates)
            trees = manifests(file)
            namespace = trees[0]["metadata"]["name"]
            await accepted(on, trees)
            pods = await on.pods(
                namespace, lambda pods: len(pods) == 3 and all(p["spec"].get("nodeName") for p in pods)
            )
            (name, *_) = [pod["metadata"]["name"] for pod in pods]
            message = await event(on, name, namespace, "FailedPrepareDynamicResources", told)
            assert message.startswith("Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareRes")
            assert "sharing.strategy" in message
            assert "trying again will not help" not in message  # it will, once the gate is on
            assert not claim_files(on, "t4")

            # Whoever switches it on helps: the kubelet tries again.
            await annotate(on, "t4", GATES, None)
            await on.running(namespace, 3)

    story(tell)


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
def test_a_wrong_parameter_is_named_with_what_to_write(
    manifests: Manifests, change: Callable[[Tree], None], words: Sequence[str]
) -> None:
    async def tell() -> None:
        async with stage(fleet=("a100=1xa100-40gb",)) as on:
            trees = manifests("castai/02-timeslicing")
            claim = next(tree for tree in trees if tree["kind"] == "ResourceClaim")
            change(claim["spec"]["devices"]["config"][0]["opaque"]["parameters"])
            await accepted(on, trees)
            pods = await on.pods("gpu-demo-timeslicing", lambda pods: len(pods) == 3)
            name = pods[0]["metadata"]["name"]
            message = await event(on, name, "gpu-demo-timeslicing", "FailedPrepareDynamicResources")
            assert [word for word in words if word not in message] == [], message

    story(tell)


# --- AMD -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["", "/spx@v0"])
def test_a_whole_amd_gpu_is_in_its_container(manifests: Manifests, mode: str) -> None:
    async def tell() -> None:
        async with stage(fleet=(f"{MI300X}{mode}",)) as on:
            await accepted(on, manifests("amd/example"))
            (pod,) = await on.running("gpu-test", 1)
            (device,) = await on.devices(pod)
            _, card, render = device.split("-")
            assert (await run(on, pod, "ls", "/dev/dri")).split() == [f"card{card}", f"renderD{render}"]
            assert "kfd" in (await run(on, pod, "ls", "/dev")).split()
            assert 'DRA_RESOURCE_DRIVER_NAME="gpu.amd.com"' in await logs(on, pod, "ctr0")
            await gone(on, "gpu-test")
            assert not claim_files(on, "mi300x")

    story(tell)


def test_partitions_with_one_parent_by_a_key_that_is_not_published(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=(f"{MI300X}/cpx@v0",)) as on:
            await accepted(on, manifests("amd/example-partitions-same-parent"))
            (pod,) = await on.pods("gpu-test", lambda pods: len(pods) == 1 and all(map(waits, pods)))
            assert "(constraint-attribute-unpublished)" in condition(pod)["message"]

    story(tell)


def test_a_gpu_is_put_into_the_mode_that_its_claim_asks_for(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(ALL_GATES, fleet=(f"{MI300X}/auto",)) as on:
            await accepted(on, manifests("amd/auto-partition-spx"))
            (pod,) = await on.running("gpu-test", 1)
            (device,) = await on.devices(pod)
            assert device.endswith("-spx-nps1")
            assert len((await run(on, pod, "ls", "/dev/dri")).split()) == 2
            (entry,) = await statuses(on, pod)
            assert len(entry["data"]["partitions"]) == 1
            await gone(on, "gpu-test")
            assert not claim_files(on, "mi300x")

    story(tell)


# --- the example driver ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["basic-shared-claim-across-containers", "initcontainer-shared-gpu"])
def test_all_containers_of_a_pod_are_told_the_same_gpu(manifests: Manifests, name: str) -> None:
    async def tell() -> None:
        async with stage(fleet=("n=2xexample",)) as on:
            await accepted(on, manifests(f"example/{name}"))
            (pod,) = await on.running(name, 1)
            containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
            assert len(containers) == 2
            for container in containers:
                told = await logs(on, pod, container["name"])
                assert 'GPU_DEVICE_0="gpu-0"' in told
                assert "GPU_DEVICE_1" not in told
            await gone(on, name)
            assert not claim_files(on, "n")

    story(tell)


def test_a_rule_evicts_who_holds_a_gpu_and_holds_back_who_comes(manifests: Manifests) -> None:
    folder, namespace = "example/device-taint-pod-noexecute", "basic-resourceclaimtemplate"

    async def tell() -> None:
        async with stage(ALL_GATES, fleet=("n=2xexample",)) as on:
            await accepted(on, manifests(f"{folder}/1-basic-resourceclaimtemplate", f"{folder}/2-pod-to-be-evicted"))
            await on.running(namespace, 1)
            await accepted(on, manifests(f"{folder}/3-device-taint-rule"))
            await on.pods(namespace, lambda pods: not pods)
            assert not claim_files(on, "n")
            await accepted(on, manifests(f"{folder}/4-pod-no-execute"))
            assert "gpu.example.com/unhealthy=true:NoExecute" in await on.told("pod-no-execute", namespace)

    story(tell)


def test_a_rule_that_holds_back_leaves_who_is_there(manifests: Manifests) -> None:
    folder, namespace = "example/device-taint-pod-noschedule", "basic-resourceclaimtemplate"

    async def tell() -> None:
        async with stage(ALL_GATES, fleet=("n=2xexample",)) as on:
            await accepted(on, manifests(f"{folder}/1-basic-resourceclaimtemplate", f"{folder}/2-pod-keeps-running"))
            await on.running(namespace, 1)
            await accepted(on, manifests(f"{folder}/3-device-taint-rule"))
            await accepted(on, [{"apiVersion": "v1", **manifests.one(f"{folder}/4-pod-not-scheduled")}])
            await on.told("pod-no-schedule", namespace, "(devices-tainted)")
            assert runs(await on.pod("pod-keeps-running", namespace))

    story(tell)


def test_who_tolerates_a_taint_runs_on_the_driver_s_gpu(manifests: Manifests) -> None:
    folder, namespace = "example/device-taint-pod-toleration", "basic-resourceclaimtemplate"

    async def tell() -> None:
        async with stage(ALL_GATES, fleet=("n=2xexample",)) as on:
            files = (f"{folder}/1-device-taint-rule", f"{folder}/2-basic-resourceclaimtemplate")
            await accepted(on, manifests(*files))
            pod = await on.until(runs, "pod-with-toleration", namespace)
            assert 'GPU_DEVICE_0="gpu-0"' in await logs(on, pod, "ctr0")
            await on.told("pod-without-toleration", namespace, "(devices-tainted)")

    story(tell)


def test_who_tolerates_a_taint_for_a_time_goes_when_it_is_over(manifests: Manifests) -> None:
    folder, namespace = "example/device-taint-configurable-pod-eviction-time", "basic-resourceclaimtemplate"

    async def tell() -> None:
        async with stage(ALL_GATES, fleet=("n=3xexample",), speed=60) as on:
            await accepted(on, manifests(f"{folder}/1-basic-resourceclaimtemplate"))
            await on.running(namespace, 3)
            await accepted(on, manifests(f"{folder}/2-device-taint-rule"))
            left = await on.pods(namespace, lambda pods: len(pods) == 2)
            assert [pod["metadata"]["name"] for pod in left] == ["pod-with-300s-toleration", "pod-with-toleration"]
            (last,) = await on.pods(namespace, lambda pods: len(pods) == 1)
            assert last["metadata"]["name"] == "pod-with-toleration"
            await until(lambda: len(claim_files(on, "n")) == 1)

    story(tell)


def test_the_pods_of_a_group_share_its_claim_until_the_group_is_gone(manifests: Manifests) -> None:
    namespace = "podgroup-resourceclaimtemplate"

    async def tell() -> None:
        async with stage(ALL_GATES, fleet=("n=2xexample",)) as on:
            await accepted(on, manifests("example/podgroup-resourceclaimtemplate"))
            pods = await on.running(namespace, 4)
            given = [await on.devices(pod) for pod in pods]
            assert given[0] == given[1] != given[2] == given[3]
            for pod, (device,) in zip(pods, given, strict=True):
                assert f'="{device}"' in await logs(on, pod, "ctr0")
            for claim, name in zip(await claims(on, namespace), ("group-1", "group-2"), strict=True):
                (owner,), (user,) = claim["metadata"]["ownerReferences"], claim["status"]["reservedFor"]
                told = (user["apiGroup"], user["resource"], user["name"], user["uid"])
                assert told == ("scheduling.k8s.io", "podgroups", name, owner["uid"])
            assert len(claim_files(on, "n")) == 2

            # A group that is to go stays while there are pods of it, and with it what these have.
            before = {pod["metadata"]["name"] for pod in pods}
            await on.client.delete(POD_GROUPS, "group-1", namespace)
            await on.client.delete(PODS, pods[0]["metadata"]["name"], namespace)
            await on.pods(namespace, lambda pods: len({p["metadata"]["name"] for p in pods} - before) == 1)
            (new,) = [pod for pod in await on.running(namespace, 4) if pod["metadata"]["name"] not in before]
            assert await on.devices(new) == given[1]

            await on.client.delete(DEPLOYMENTS, "group-1", namespace)
            await on.running(namespace, 2)
            await until(lambda: len(claim_files(on, "n")) == 1)
            async with asyncio.timeout(120):
                while len(left := await claims(on, namespace)) > 1:
                    await asyncio.sleep(0.01)
            assert left[0]["status"]["reservedFor"][0]["name"] == "group-2"
            (group,) = (await on.client.list(POD_GROUPS, namespace)).items
            assert group["metadata"]["name"] == "group-2"

    story(tell)


async def claims(on: Stage, namespace: str) -> list[Tree]:
    """The claims of a namespace, by name."""
    found = (await on.client.list(CLAIMS, namespace)).items
    return sorted(found, key=lambda claim: str(claim["metadata"]["name"]))


def test_without_the_gate_pods_of_a_group_have_claims_of_their_own(manifests: Manifests) -> None:
    namespace = "podgroup-resourceclaimtemplate"

    async def tell() -> None:
        async with stage(fleet=("n=4xexample",)) as on:
            trees = [tree for tree in manifests("example/podgroup-resourceclaimtemplate") if tree["kind"] != "PodGroup"]
            await accepted(on, trees)
            pods = await on.running(namespace, 4)
            assert len({name for pod in pods for name in await on.devices(pod)}) == 4
            owners = [claim["metadata"]["ownerReferences"][0]["kind"] for claim in await claims(on, namespace)]
            assert owners == ["Pod"] * 4

    story(tell)


# --- nothing is left out ---------------------------------------------------------------------------------------------

#: Input of another program, which partitions GPUs; no object of Kubernetes.
NO_OBJECTS = {"nvidia/quickstart/mig-parted-config"}


def test_every_file_of_the_vendors_has_its_test(shared: Shared) -> None:
    root = shared("manifests")
    told = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    for vendor in ("nvidia", "amd", "castai", "example"):
        for path in root.joinpath(vendor).rglob("*.yaml"):
            file = path.relative_to(root).with_suffix("").as_posix()
            short = file.removeprefix("example/")
            folder, _, name = file.rpartition("/")
            named = (f'"{file}"' in told, f'"{short}"' in told, f'"{folder}"' in told and f"/{name}" in told)
            assert any(named) or file in NO_OBJECTS, file
