"""The vendors' examples have the same results as on a real cluster, as far as no driver is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from allotment.model.trees import Tree
from tests.cluster_actions import is_running, is_unschedulable, scheduled_condition
from tests.lab.harness import lab_harness
from tests.lab.manifests import ALL_GATES, Manifests, Shared, cluster, create_accepted, run_scenario


@pytest.fixture(scope="module")
def manifests(shared: Shared) -> Manifests:
    return Manifests(shared)


# --- the vendors' examples -------------------------------------------------------------------------------------------

#: file: cluster, namespace, devices by pod (the owner's name where it has one), in any order of the pods.
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
def test_a_vendors_example_runs_on_the_same_devices(manifests: Manifests, file: str) -> None:
    where, namespace, expected = RUNNING[file]

    async def scenario() -> None:
        async with cluster(manifests, where) as lab:
            await create_accepted(lab, manifests(file))
            pods = await lab.running(namespace, len(expected))
            assert sorted([sorted(await lab.devices(pod)) for pod in pods]) == sorted(map(list, expected))

    run_scenario(scenario)


def test_the_vendors_example_of_seven_mig_devices(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with cluster(manifests, "a100-mig") as lab:
            await create_accepted(lab, manifests("castai/04-mig"))
            (namespace,) = {
                tree["metadata"]["namespace"] for tree in manifests("castai/04-mig") if tree["kind"] == "Deployment"
            }
            pods = await lab.running(namespace, 7)
            given = [name for pod in pods for name in await lab.devices(pod)]
            assert len(set(given)) == 7
            assert all("1g5gb" in name for name in given)

    run_scenario(scenario)


def test_cel_string_functions_select_by_product(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("a100=dgx-a100-40gb", "t4=t4-4x-pcie")) as lab:
            await create_accepted(lab, manifests("castai/03-mps-Volta", "castai/03-mps-preVolta"))
            pods = await lab.running("gpu-demo-mps-volta", 3)
            assert {pod["spec"]["nodeName"] for pod in pods} == {"t4"}
            pods = await lab.pods(
                "gpu-demo-mps-pre-volta", lambda pods: len(pods) == 3 and all(map(is_unschedulable, pods))
            )
            assert "lowerAscii().matches('^.*(p4).*$')" in scheduled_condition(pods[0])["message"]

    run_scenario(scenario)


WAITING: Mapping[str, tuple[str, str, int, str]] = {
    "nvidia/quickstart/v1/gpu-test-vfiopci": ("a100", "gpu-test-vfio", 1, "(class-matches-nothing)"),
    "nvidia/quickstart/v1/imex-test1": ("a100", "imex-test1", 8, "device class imex.nvidia.com does not exist"),
    "amd/example-partitions-same-parent": ("mi300x-cpx", "gpu-test", 1, "(constraint-attribute-unpublished)"),
}


@pytest.mark.parametrize("file", WAITING)
def test_a_vendors_example_is_pending_with_the_reason(manifests: Manifests, file: str) -> None:
    where, namespace, count, arguments = WAITING[file]

    async def scenario() -> None:
        async with cluster(manifests, where) as lab:
            await create_accepted(lab, manifests(file))
            pods = await lab.pods(namespace, lambda pods: len(pods) == count and all(map(is_unschedulable, pods)))
            assert all(arguments in scheduled_condition(pod)["message"] for pod in pods)

    run_scenario(scenario)


#: file: the first object that is rejected, the code and message.
REFUSED: Mapping[str, tuple[str, int, str]] = {
    "nvidia/quickstart/v1beta1/gpu-test-vfiopci": (
        "ResourceClaimTemplate",
        404,
        "could not find the requested resource",
    ),
    "nvidia/mig+mps/sharing-demo-claims-1": ("ResourceClaim", 404, "could not find the requested resource"),
    "nvidia/mig+mps/sharing-demo-parameters-1": ("MigDeviceClaimParameters", 404, "404 page not found"),
    "nvidia/selectors/claims": ("ResourceClaimTemplate", 404, "could not find the requested resource"),
    "nvidia/selectors/parameters": ("GpuClaimParameters", 404, "404 page not found"),
    "nvidia/selectors/pods": ("Pod", 400, 'unknown field "spec.resourceClaims[0].source"'),
    "nvidia/mig+mps/sharing-demo-job-1": ("Job", 400, 'resourceClaims[0].source"'),
    "nvidia/imex/channel-injection": ("ComputeDomain", 404, "404 page not found"),
}


@pytest.mark.parametrize("file", REFUSED)
def test_unknown_kinds_and_fields_are_rejected(manifests: Manifests, file: str) -> None:
    kind, expected, arguments = REFUSED[file]

    async def scenario() -> None:
        async with cluster(manifests, "a100", ALL_GATES) as lab:
            code, message = await lab.post(manifests.read_one(file, kind))
            assert code == expected, message
            assert arguments in message

    run_scenario(scenario)


# --- the example driver ----------------------------------------------------------------------------------------------


def example_devices(count: int = 8, **more: Any) -> list[Tree]:
    """The devices and the class that the example driver publishes on a node."""
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
    async def scenario() -> None:
        async with lab_harness(ALL_GATES) as lab:
            await lab.set_up(example_devices(), kubelets=True)
            await create_accepted(lab, manifests(f"example/{file}"))
            pods = await lab.running(file, len(EXAMPLES[file]))
            given = [await lab.devices(pod) for pod in pods]
            assert [len(set(devices)) for devices in given] == list(EXAMPLES[file])
            if "shared" not in file:
                everything = [device for devices in given for device in devices]
                assert len(set(everything)) == len(everything)

    run_scenario(scenario)


def test_the_preferred_alternative_is_allocated(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness() as lab:
            await lab.set_up(example_devices(), kubelets=True)
            await create_accepted(lab, manifests("example/prioritized-alternatives"))
            first, second = await lab.running("prioritized-alternatives", 2)
            requests = [
                (await lab.claims(p))[0]["status"]["allocation"]["devices"]["results"][0]["request"]
                for p in (first, second)
            ]
            assert requests == ["gpu/older-gpu", "gpu/latest-gpu"]

    run_scenario(scenario)


SHARED: Mapping[str, tuple[str, Tree]] = {
    "gpu-allow-multiple-allocations": ("gpu", {"memory": {"value": "80Gi"}, "compute": {"value": "100"}}),
    "gpu-allow-multiple-allocations-partitionable": ("gpu", {"memory": {"value": "40Gi"}, "compute": {"value": "50"}}),
    "net-consumable-capacity": ("net", {"ingressBandwidth": {"value": "20G"}, "egressBandwidth": {"value": "20G"}}),
    "native-resource-request": ("cpu", {"cpu.example.com/cpu": {"value": "8"}}),
}


@pytest.mark.parametrize("file", SHARED)
def test_examples_of_shared_capacity_share_one_device(manifests: Manifests, file: str) -> None:
    kind, capacity = SHARED[file]

    async def scenario() -> None:
        device = {"name": "one", "allowMultipleAllocations": True, "capacity": capacity}
        async with lab_harness(ALL_GATES) as lab:
            await lab.set_up([driver_class(f"{kind}.example.com"), driver_slice(kind, [device])], kubelets=True)
            await create_accepted(lab, manifests(f"example/{file}"))
            expected = sum(tree["kind"] == "Pod" for tree in manifests(f"example/{file}"))
            pods = await lab.running(file, expected)
            given = [
                r for p in pods for c in await lab.claims(p) for r in c["status"]["allocation"]["devices"]["results"]
            ]
            assert {result["device"] for result in given} == {"one"}
            assert len(given) == 2
            assert len({result["shareID"] for result in given}) == 2
            assert all(result["consumedCapacity"] for result in given)

    run_scenario(scenario)


def test_a_whole_gpu_as_a_partition_of_the_driver(manifests: Manifests) -> None:
    async def scenario() -> None:
        device = {
            "name": "gpu-0-spx-nps1",
            "allowMultipleAllocations": True,
            "attributes": {"computePartition": {"string": "spx"}, "memoryPartition": {"string": "nps1"}},
            "capacity": {"partitions": {"value": "1"}},
        }
        amd_slice = driver_slice("gpu", [device])
        amd_slice["spec"]["driver"] = "gpu.amd.com"
        async with lab_harness(ALL_GATES) as lab:
            await lab.set_up([*manifests("classes/amd"), amd_slice], kubelets=True)
            await create_accepted(lab, manifests("amd/auto-partition-spx"))
            (pod,) = await lab.running("gpu-test", 1)
            assert await lab.devices(pod) == ["gpu-0-spx-nps1"]

    run_scenario(scenario)


def test_taints_evict_and_block_pods_unless_tolerated(manifests: Manifests) -> None:
    namespace = "basic-resourceclaimtemplate"

    async def scenario() -> None:
        async with lab_harness(ALL_GATES) as lab:
            await lab.set_up(example_devices(), kubelets=True)
            folder = "example/device-taint-pod-noexecute"
            await create_accepted(
                lab, manifests(f"{folder}/1-basic-resourceclaimtemplate", f"{folder}/2-pod-to-be-evicted")
            )
            await lab.running(namespace, 1)
            await create_accepted(lab, manifests(f"{folder}/3-device-taint-rule"))
            await lab.pods(namespace, lambda pods: not pods)
            await create_accepted(lab, manifests(f"{folder}/4-pod-no-execute"))
            message = await lab.failed_scheduling("pod-no-execute", namespace, "(devices-tainted)")
            assert "gpu.example.com/unhealthy=true:NoExecute" in message

    run_scenario(scenario)


def test_a_noschedule_taint_blocks_only_new_pods(manifests: Manifests) -> None:
    namespace, folder = "basic-resourceclaimtemplate", "example/device-taint-pod-noschedule"

    async def scenario() -> None:
        async with lab_harness(ALL_GATES) as lab:
            await lab.set_up(example_devices(), kubelets=True)
            await create_accepted(
                lab, manifests(f"{folder}/1-basic-resourceclaimtemplate", f"{folder}/2-pod-keeps-running")
            )
            await lab.running(namespace, 1)
            await create_accepted(lab, manifests(f"{folder}/3-device-taint-rule"))
            late = manifests.read_one(f"{folder}/4-pod-not-scheduled")
            assert "apiVersion" not in late  # kubectl rejects the file
            await create_accepted(lab, [{"apiVersion": "v1", **late}])
            await lab.failed_scheduling("pod-no-schedule", namespace, "(devices-tainted)")
            assert is_running(await lab.pod("pod-keeps-running", namespace))

    run_scenario(scenario)


def test_only_pods_that_tolerate_a_taint_run(manifests: Manifests) -> None:
    namespace, folder = "basic-resourceclaimtemplate", "example/device-taint-pod-toleration"

    async def scenario() -> None:
        async with lab_harness(ALL_GATES) as lab:
            await lab.set_up(example_devices(), kubelets=True)
            await create_accepted(
                lab, manifests(f"{folder}/1-device-taint-rule", f"{folder}/2-basic-resourceclaimtemplate")
            )
            await lab.wait_for_pod(is_running, "pod-with-toleration", namespace)
            await lab.failed_scheduling("pod-without-toleration", namespace, "(devices-tainted)")

    run_scenario(scenario)


def test_a_pod_is_evicted_after_the_tolerated_time(manifests: Manifests) -> None:
    namespace, folder = "basic-resourceclaimtemplate", "example/device-taint-configurable-pod-eviction-time"

    async def scenario() -> None:
        async with lab_harness(ALL_GATES, speed=200) as lab:
            await lab.set_up(example_devices(), kubelets=True)
            await create_accepted(lab, manifests(f"{folder}/1-basic-resourceclaimtemplate"))
            await lab.running(namespace, 3)
            await create_accepted(lab, manifests(f"{folder}/2-device-taint-rule"))
            remaining = await lab.pods(namespace, lambda pods: len(pods) == 2)
            assert [pod["metadata"]["name"] for pod in remaining] == ["pod-with-300s-toleration", "pod-with-toleration"]
            (remaining,) = [await lab.pods(namespace, lambda pods: len(pods) == 1)]
            assert remaining[0]["metadata"]["name"] == "pod-with-toleration"

    run_scenario(scenario)
