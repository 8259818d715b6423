"""Beyond the articles: so many GiB of a GPU without MIG. One may ask for it, and is held to it."""

from __future__ import annotations

import json

from allotment.cluster.resources import PODS
from allotment.lab.pod_http import NoAnswer, http_get
from allotment.model.trees import Tree
from tests.lab.driven import claim_files, event, gone, hardware, statuses, variables
from tests.lab.manifests import accepted, story
from tests.lab.stage import Stage, runs, stage

GIB = 1 << 30


def template(name: str, memory: str, **parameters: object) -> Tree:
    """So much memory of any GPU."""
    exactly: Tree = {"deviceClassName": "gpu.nvidia.com", "capacity": {"requests": {"memory": memory}}}
    devices: Tree = {"requests": [{"name": "gpu", "exactly": exactly}]}
    if parameters:
        config = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", **parameters}
        devices["config"] = [{"opaque": {"driver": "gpu.nvidia.com", "parameters": config}}]
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name},
        "spec": {"spec": {"devices": devices}},
    }  # fmt: skip


def application(name: str, asks: str, needs_mib: int) -> Tree:
    """The articles' demo with a part of a GPU; a picture takes it so much memory there."""
    variables = {"WIDTH": 64, "HEIGHT": 40, "GPU_WORK": 1, "GPU_MEMORY_MIB": needs_mib}
    container = {
        "name": "app", "image": "ghcr.io/castai/gpu-demo-app:latest", "ports": [{"containerPort": 5000}],
        "env": [{"name": key, "value": str(value)} for key, value in variables.items()],
        "resources": {"claims": [{"name": "gpu"}]},
    }  # fmt: skip
    claims = [{"name": "gpu", "resourceClaimTemplateName": asks}]
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [container], "resourceClaims": claims},
    }  # fmt: skip


async def picture(on: Stage, pod: Tree) -> str:
    """What a pod says of its share after it has drawn, or why it has not."""
    try:
        assert (await http_get(on.plane.environment.kubelets, pod, 5000, "/image.png")).startswith(b"\x89PNG")
        stats = json.loads(await http_get(on.plane.environment.kubelets, pod, 5000, "/stats"))
    except NoAnswer as error:
        return str(error)
    return f"{stats['strategy']}: {stats['share']}"


def test_ten_gib_of_a_gpu_are_ten_gib_and_no_more() -> None:
    async def tell() -> None:
        async with stage(fleet=("t4=1xt4/shared",)) as on:
            before = hardware(on, "t4").snapshot()
            await accepted(on, [template("ten", "10Gi"), template("four", "4Gi")])
            await accepted(on, [application("large", "ten", 9000), application("small", "four", 9000)])
            large, small = [await on.until(runs, name, "default") for name in ("large", "small")]
            assert await on.devices(large) == await on.devices(small) == ["gpu-0"]
            (given,) = (await on.claims(large))[0]["status"]["allocation"]["devices"]["results"]
            assert given["consumedCapacity"]["memory"] == "10Gi"
            limits = sorted(
                limit for daemon in hardware(on, "t4").snapshot().daemons.values()
                for limit in daemon.memory_limits.values()
            )  # fmt: skip
            assert limits == [4 * 1024, 10 * 1024]
            assert (await variables(on, large))["CUDA_MPS_PIPE_DIRECTORY"] == "/tmp/nvidia-mps"
            assert (await statuses(on, large))[0]["data"]["sharing"]["memoryLimit"] == "10240Mi"

            # Both want 9000 MiB. The one has asked for as much, the other one is told that it has not.
            assert await picture(on, large) == "MPS, side by side: 40 multiprocessors, 10 GiB"
            assert "503" in await picture(on, small)

            # 15 GiB less 14: a third one of four waits, and runs when there is room.
            await accepted(on, [application("late", "four", 1000)])
            await on.told("late", "default", "cannot allocate all claims")
            await on.client.delete(PODS, "large", "default")
            late = await on.until(runs, "late", "default")
            assert await picture(on, late) == "MPS, side by side: 40 multiprocessors, 4 GiB"
            await gone(on, "default")
            assert hardware(on, "t4").snapshot() == before
            assert not claim_files(on, "t4")

    story(tell)


def test_who_asks_for_memory_and_writes_another_limit_is_told_so() -> None:
    async def tell() -> None:
        async with stage(fleet=("t4=1xt4/shared",)) as on:
            limit = {"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "1Gi"}}
            await accepted(on, [template("two", "2Gi", sharing=limit), application("pod", "two", 100)])
            told = await event(on, "pod", "default", "FailedPrepareDynamicResources")
            assert "set capacity.requests.memory and remove the memory limits" in told
            assert not hardware(on, "t4").snapshot().daemons

    story(tell)
