"""The vendors' examples come to what they came to on a real cluster, as far as no driver is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from allotment.model.trees import Tree
from tests.lab.manifests import ALL_GATES, Manifests, Shared, accepted, cluster, story
from tests.lab.stage import condition, runs, stage, waits


@pytest.fixture(scope="module")
def manifests(shared: Shared) -> Manifests:
    return Manifests(shared)


# --- the vendors' examples -------------------------------------------------------------------------------------------

#: file: cluster, namespace, devices by pod (owner's name where it has one), in any order of the pods.
RUNNING: Mapping[str, tuple[str, str, Sequence[Sequence[str]]]] = {
    "nvidia/quickstart/v1/gpu-test1": ("a100", "gpu-test1", [["gpu-0"], ["gpu-1"]]),
    "nvidia/quickstart/v1/gpu-test3": ("a100", "gpu-test3", [["gpu-0"], ["gpu-0"]]),
    "nvidia/quickstart/v1/gpu-test5": ("a100", "gpu-test5", [["gpu-0", "gpu-1"]]),
    "nvidia/quickstart/v1beta1/gpu-test1": ("a100", "gpu-test1", [["gpu-0"], ["gpu-1"]]),
    "nvidia/quickstart/v1beta1/gpu-test3": ("a100", "gpu-test3", [["gpu-0"], ["gpu-0"]]),
    "nvidia/quickstart/v1beta1/gpu-test5": ("a100", "gpu-test5", [["gpu-0", "gpu-1"]]),
    "nvidia/quickstart/gpu-test7": ("a100", "gpu-test7", [["gpu-0", "gpu-1"]]),
    "nvidia/extended-resources/gpu-full": ("a100", "extended-resource-gpu-full", [["gpu-0"]]),
    "nvidia/consumable-shares/integer-sharing": ("a100", "gpu-share-integer", [[f"gpu-{n}"] for n in range(4)]),
    "nvidia/consumable-shares/unlimited-sharing": ("a100", "gpu-share-unlimited", [["gpu-0"], ["gpu-1"]]),
    "amd/example": ("mi300x", "gpu-test", [["gpu-1-128"]]),
    "castai/01-basic": ("a100", "gpu-demo-basic", [["gpu-0"]]),
    "castai/02-timeslicing": ("a100", "gpu-demo-timeslicing", [["gpu-0"]] * 3),
    "castai/k8s-deployment": ("a100", "gpu-demo", [["gpu-0"]]),
}


@pytest.mark.parametrize("file", RUNNING)
def test_a_vendor_s_example_runs_on_the_same_devices(manifests: Manifests, file: str) -> None:
    where, namespace, wanted = RUNNING[file]

    async def tell() -> None:
        async with cluster(manifests, where) as on:
            await accepted(on, manifests(file))
            pods = await on.running(namespace, len(wanted))
            assert sorted([sorted(await on.devices(pod)) for pod in pods]) == sorted(map(list, wanted))

    story(tell)


def test_seven_slices_in_the_vendor_s_own_words(manifests: Manifests) -> None:
    async def tell() -> None:
        async with cluster(manifests, "a100-mig") as on:
            await accepted(on, manifests("castai/04-mig"))
            (namespace,) = {
                tree["metadata"]["namespace"] for tree in manifests("castai/04-mig") if tree["kind"] == "Deployment"
            }
            pods = await on.running(namespace, 7)
            given = [name for pod in pods for name in await on.devices(pod)]
            assert len(set(given)) == 7
            assert all("1g5gb" in name for name in given)

    story(tell)


def test_cel_s_string_functions_choose_by_product(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=("a100=dgx-a100-40gb", "t4=t4-4x-pcie")) as on:
            await accepted(on, manifests("castai/03-mps-Volta", "castai/03-mps-preVolta"))
            pods = await on.running("gpu-demo-mps-volta", 3)
            assert {pod["spec"]["nodeName"] for pod in pods} == {"t4"}
            pods = await on.pods("gpu-demo-mps-pre-volta", lambda pods: len(pods) == 3 and all(map(waits, pods)))
            assert "lowerAscii().matches('^.*(p4).*$')" in condition(pods[0])["message"]

    story(tell)


WAITING: Mapping[str, tuple[str, str, int, str]] = {
    "nvidia/quickstart/v1/gpu-test-vfiopci": ("a100", "gpu-test-vfio", 1, "(class-matches-nothing)"),
    "nvidia/quickstart/v1/imex-test1": ("a100", "imex-test1", 8, "device class imex.nvidia.com does not exist"),
    "amd/example-partitions-same-parent": ("mi300x-cpx", "gpu-test", 1, "(constraint-attribute-unpublished)"),
}


@pytest.mark.parametrize("file", WAITING)
def test_a_vendor_s_example_waits_with_the_reason(manifests: Manifests, file: str) -> None:
    where, namespace, count, words = WAITING[file]

    async def tell() -> None:
        async with cluster(manifests, where) as on:
            await accepted(on, manifests(file))
            pods = await on.pods(namespace, lambda pods: len(pods) == count and all(map(waits, pods)))
            assert all(words in condition(pod)["message"] for pod in pods)

    story(tell)


#: file: the first object that is refused, the code and words of it.
REFUSED: Mapping[str, tuple[str, int, str]] = {
    "nvidia/quickstart/v1beta1/gpu-test-vfiopci": (
        "ResourceClaimTemplate",
        404,
        "could not find the requested resource",
    ),
    "nvidia/mig+mps/sharing-demo-claims-1": ("ResourceClaim", 404, "404 page not found"),
    "nvidia/mig+mps/sharing-demo-parameters-1": ("MigDeviceClaimParameters", 404, "404 page not found"),
    "nvidia/selectors/claims": ("ResourceClaimTemplate", 404, "404 page not found"),
    "nvidia/selectors/parameters": ("GpuClaimParameters", 404, "404 page not found"),
    "nvidia/selectors/pods": ("Pod", 400, 'unknown field "spec.resourceClaims[0].source"'),
    "nvidia/mig+mps/sharing-demo-job-1": ("Job", 400, 'resourceClaims[0].source"'),
    "nvidia/imex/channel-injection": ("ComputeDomain", 404, "404 page not found"),
}


@pytest.mark.parametrize("file", REFUSED)
def test_what_the_api_does_not_know_is_refused(manifests: Manifests, file: str) -> None:
    kind, wanted, words = REFUSED[file]

    async def tell() -> None:
        async with cluster(manifests, "a100", ALL_GATES) as on:
            code, message = await on.post(manifests.one(file, kind))
            assert code == wanted, message
            assert words in message

    story(tell)


# --- the example driver ----------------------------------------------------------------------------------------------


def example_devices(count: int = 8, **more: Any) -> list[Tree]:
    """What the example driver publishes on a node, and its class."""
    devices = [
        {
            "name": f"gpu-{n}",
            "attributes": {"model": {"string": "LATEST-GPU-MODEL"}, "index": {"int": n}},
            "capacity": {"memory": {"value": "80Gi"}},
            **more,
        }
        for n in range(count)
    ]
    return [driver_class("gpu.example.com", extendedResourceName="example.com/gpu"), driver_slice("gpu", devices)]


def driver_class(driver: str, **spec: Any) -> Tree:
    selector = {"cel": {"expression": f"device.driver == '{driver}'"}}
    spec = {"selectors": [selector], **spec}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": driver}, "spec": spec}


def driver_slice(kind: str, devices: Sequence[Tree]) -> Tree:
    pool = {"name": "node", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": f"{kind}.example.com", "nodeName": "node", "pool": pool, "devices": list(devices)}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"node-{kind}"},
        "spec": spec,
    }


EXAMPLES: Mapping[str, Sequence[int]] = {
    "admin-access": [8],
    "basic-multiple-requests": [2],
    "basic-resourceclaim-opaque-config": [2],
    "basic-resourceclaimtemplate": [1, 1],
    "basic-shared-claim-across-containers": [1],
    "basic-shared-claim-across-pods": [1, 1],
    "binding-conditions": [1],
    "cel-selector": [1],
    "extended-resource-request": [1, 1],
    "initcontainer-shared-gpu": [1],
    "partitionable-devices": [2],
    "prioritized-alternatives": [1, 1],
}


@pytest.mark.parametrize("file", EXAMPLES)
def test_an_example_of_the_example_driver_runs(manifests: Manifests, file: str) -> None:
    async def tell() -> None:
        async with stage(ALL_GATES) as on:
            await on.set_up(example_devices(), kubelets=True)
            await accepted(on, manifests(f"example/{file}"))
            pods = await on.running(file, len(EXAMPLES[file]))
            given = [await on.devices(pod) for pod in pods]
            assert [len(set(devices)) for devices in given] == list(EXAMPLES[file])
            if "shared" not in file:
                everything = [device for devices in given for device in devices]
                assert len(set(everything)) == len(everything)

    story(tell)


def test_the_better_of_two_alternatives_is_taken(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage() as on:
            await on.set_up(example_devices(), kubelets=True)
            await accepted(on, manifests("example/prioritized-alternatives"))
            first, second = await on.running("prioritized-alternatives", 2)
            requests = [
                (await on.claims(p))[0]["status"]["allocation"]["devices"]["results"][0]["request"]
                for p in (first, second)
            ]
            assert requests == ["gpu/older-gpu", "gpu/latest-gpu"]

    story(tell)


SHARED: Mapping[str, tuple[str, Tree]] = {
    "gpu-allow-multiple-allocations": ("gpu", {"memory": {"value": "80Gi"}, "compute": {"value": "100"}}),
    "gpu-allow-multiple-allocations-partitionable": ("gpu", {"memory": {"value": "40Gi"}, "compute": {"value": "50"}}),
    "net-consumable-capacity": ("net", {"ingressBandwidth": {"value": "20G"}, "egressBandwidth": {"value": "20G"}}),
    "native-resource-request": ("cpu", {"cpu.example.com/cpu": {"value": "8"}}),
}


@pytest.mark.parametrize("file", SHARED)
def test_examples_of_shared_capacity_share_one_device(manifests: Manifests, file: str) -> None:
    kind, capacity = SHARED[file]

    async def tell() -> None:
        device = {"name": "one", "allowMultipleAllocations": True, "capacity": capacity}
        async with stage(ALL_GATES) as on:
            await on.set_up([driver_class(f"{kind}.example.com"), driver_slice(kind, [device])], kubelets=True)
            await accepted(on, manifests(f"example/{file}"))
            wanted = sum(tree["kind"] == "Pod" for tree in manifests(f"example/{file}"))
            pods = await on.running(file, wanted)
            given = [
                r for p in pods for c in await on.claims(p) for r in c["status"]["allocation"]["devices"]["results"]
            ]
            assert {result["device"] for result in given} == {"one"}
            assert len(given) == 2
            assert len({result["shareID"] for result in given}) == 2
            assert all(result["consumedCapacity"] for result in given)

    story(tell)


def test_a_whole_gpu_by_the_partition_that_the_driver_makes(manifests: Manifests) -> None:
    async def tell() -> None:
        device = {
            "name": "gpu-0-spx-nps1",
            "allowMultipleAllocations": True,
            "attributes": {"computePartition": {"string": "spx"}, "memoryPartition": {"string": "nps1"}},
            "capacity": {"partitions": {"value": "1"}},
        }
        one = driver_slice("gpu", [device])
        one["spec"]["driver"] = "gpu.amd.com"
        async with stage(ALL_GATES) as on:
            await on.set_up([*manifests("classes/amd"), one], kubelets=True)
            await accepted(on, manifests("amd/auto-partition-spx"))
            (pod,) = await on.running("gpu-test", 1)
            assert await on.devices(pod) == ["gpu-0-spx-nps1"]

    story(tell)


def test_taints_evict_hold_back_and_are_tolerated(manifests: Manifests) -> None:
    namespace = "basic-resourceclaimtemplate"

    async def tell() -> None:
        async with stage(ALL_GATES) as on:
            await on.set_up(example_devices(), kubelets=True)
            folder = "example/device-taint-pod-noexecute"
            await accepted(on, manifests(f"{folder}/1-basic-resourceclaimtemplate", f"{folder}/2-pod-to-be-evicted"))
            await on.running(namespace, 1)
            await accepted(on, manifests(f"{folder}/3-device-taint-rule"))
            await on.pods(namespace, lambda pods: not pods)
            await accepted(on, manifests(f"{folder}/4-pod-no-execute"))
            told = await on.told("pod-no-execute", namespace, "(devices-tainted)")
            assert "gpu.example.com/unhealthy=true:NoExecute" in told

    story(tell)


def test_a_taint_that_only_holds_new_pods_back(manifests: Manifests) -> None:
    namespace, folder = "basic-resourceclaimtemplate", "example/device-taint-pod-noschedule"

    async def tell() -> None:
        async with stage(ALL_GATES) as on:
            await on.set_up(example_devices(), kubelets=True)
            await accepted(on, manifests(f"{folder}/1-basic-resourceclaimtemplate", f"{folder}/2-pod-keeps-running"))
            await on.running(namespace, 1)
            await accepted(on, manifests(f"{folder}/3-device-taint-rule"))
            late = manifests.one(f"{folder}/4-pod-not-scheduled")
            assert "apiVersion" not in late  # kubectl refuses the file
            await accepted(on, [{"apiVersion": "v1", **late}])
            await on.told("pod-no-schedule", namespace, "(devices-tainted)")
            assert runs(await on.pod("pod-keeps-running", namespace))

    story(tell)


def test_pods_that_tolerate_a_taint_run_the_others_wait(manifests: Manifests) -> None:
    namespace, folder = "basic-resourceclaimtemplate", "example/device-taint-pod-toleration"

    async def tell() -> None:
        async with stage(ALL_GATES) as on:
            await on.set_up(example_devices(), kubelets=True)
            await accepted(on, manifests(f"{folder}/1-device-taint-rule", f"{folder}/2-basic-resourceclaimtemplate"))
            await on.until(runs, "pod-with-toleration", namespace)
            await on.told("pod-without-toleration", namespace, "(devices-tainted)")

    story(tell)


def test_who_tolerates_a_taint_for_some_time_goes_later(manifests: Manifests) -> None:
    namespace, folder = "basic-resourceclaimtemplate", "example/device-taint-configurable-pod-eviction-time"

    async def tell() -> None:
        async with stage(ALL_GATES, speed=200) as on:
            await on.set_up(example_devices(), kubelets=True)
            await accepted(on, manifests(f"{folder}/1-basic-resourceclaimtemplate"))
            await on.running(namespace, 3)
            await accepted(on, manifests(f"{folder}/2-device-taint-rule"))
            left = await on.pods(namespace, lambda pods: len(pods) == 2)
            assert [pod["metadata"]["name"] for pod in left] == ["pod-with-300s-toleration", "pod-with-toleration"]
            (left,) = [await on.pods(namespace, lambda pods: len(pods) == 1)]
            assert left[0]["metadata"]["name"] == "pod-with-toleration"

    story(tell)
