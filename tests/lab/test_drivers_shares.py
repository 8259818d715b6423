"""Beyond the articles: a memory share of a GPU without MIG can be requested, and is enforced."""

from __future__ import annotations

import json

from allotment.cluster.resources import PODS
from allotment.lab.pod_http import NoAnswer, http_get
from allotment.model.trees import Tree
from tests.cluster_actions import is_running
from tests.lab.driver_nodes import claim_specs, delete_all, device_statuses, hardware, variables, wait_for_event
from tests.lab.harness import LabHarness, lab_harness
from tests.lab.manifests import create_accepted, run_scenario

GIB = 1 << 30


def template(name: str, memory: str, **parameters: object) -> Tree:
    """Any GPU with this much memory."""
    exactly: Tree = {"deviceClassName": "gpu.nvidia.com", "capacity": {"requests": {"memory": memory}}}
    devices: Tree = {"requests": [{"name": "gpu", "exactly": exactly}]}
    if parameters:
        config = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", **parameters}
        devices["config"] = [{"opaque": {"driver": "gpu.nvidia.com", "parameters": config}}]
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name},
        "spec": {"spec": {"devices": devices}},
    }  # fmt: skip


def application(name: str, memory: str, needs_mib: int) -> Tree:
    """The articles' demo with a share of a GPU; one picture takes this much memory."""
    variables = {"WIDTH": 64, "HEIGHT": 40, "GPU_WORK": 1, "GPU_MEMORY_MIB": needs_mib}
    container = {
        "name": "app", "image": "ghcr.io/castai/gpu-demo-app:latest", "ports": [{"containerPort": 5000}],
        "env": [{"name": key, "value": str(value)} for key, value in variables.items()],
        "resources": {"claims": [{"name": "gpu"}]},
    }  # fmt: skip
    claims = [{"name": "gpu", "resourceClaimTemplateName": memory}]
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [container], "resourceClaims": claims},
    }  # fmt: skip


async def picture(lab: LabHarness, pod: Tree) -> str:
    """The share that a pod reports after it has drawn, or its error."""
    try:
        assert (await http_get(lab.plane.environment.kubelets, pod, 5000, "/image.png")).startswith(b"\x89PNG")
        stats = json.loads(await http_get(lab.plane.environment.kubelets, pod, 5000, "/stats"))
    except NoAnswer as error:
        return str(error)
    return f"{stats['strategy']}: {stats['share']}"


def test_a_memory_share_of_a_gpu_is_enforced() -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("t4=1xt4/shared",)) as lab:
            before = hardware(lab, "t4").snapshot()
            await create_accepted(lab, [template("ten", "10Gi"), template("four", "4Gi")])
            await create_accepted(lab, [application("large", "ten", 9000), application("small", "four", 9000)])
            large, small = [await lab.wait_for_pod(is_running, name, "default") for name in ("large", "small")]
            assert await lab.devices(large) == await lab.devices(small) == ["gpu-0"]
            (given,) = (await lab.claims(large))[0]["status"]["allocation"]["devices"]["results"]
            assert given["consumedCapacity"]["memory"] == "10Gi"
            limits = sorted(
                limit for daemon in hardware(lab, "t4").snapshot().daemons.values()
                for limit in daemon.memory_limits.values()
            )  # fmt: skip
            assert limits == [4 * 1024, 10 * 1024]
            assert (await variables(lab, large))["CUDA_MPS_PIPE_DIRECTORY"] == "/tmp/nvidia-mps"
            assert (await device_statuses(lab, large))[0]["data"]["sharing"]["memoryLimit"] == "10240Mi"

            # Both need 9000 MiB. One has requested as much; the other gets an error.
            assert await picture(lab, large) == "MPS, side by side: 40 multiprocessors, 10 GiB"
            assert "503" in await picture(lab, small)

            # 15 GiB minus 14: a third pod with four waits, and runs when memory is released.
            await create_accepted(lab, [application("late", "four", 1000)])
            await lab.failed_scheduling("late", "default", "cannot allocate all claims")
            await lab.client.delete(PODS, "large", "default")
            late = await lab.wait_for_pod(is_running, "late", "default")
            assert await picture(lab, late) == "MPS, side by side: 40 multiprocessors, 4 GiB"
            await delete_all(lab, "default")
            assert hardware(lab, "t4").snapshot() == before
            assert not claim_specs(lab, "t4")

    run_scenario(scenario)


def test_a_memory_limit_that_contradicts_the_request_is_rejected() -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("t4=1xt4/shared",)) as lab:
            limit = {"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "1Gi"}}
            await create_accepted(lab, [template("two", "2Gi", sharing=limit), application("pod", "two", 100)])
            message = await wait_for_event(lab, "pod", "default", "FailedPrepareDynamicResources")
            assert "set capacity.requests.memory and remove the memory limits" in message
            assert not hardware(lab, "t4").snapshot().daemons

    run_scenario(scenario)
