"""Driver parameters, in the formats of several clients: kube-apiserver stores them byte for byte.

An update that changes a byte of them is rejected, even if it is equivalent JSON.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CLAIMS, DEVICE_CLASSES, NODES, PODS, SLICES
from allotment.controllers.resource_claims import resource_claims
from allotment.model.features import Features
from allotment.model.trees import Tree
from allotment.scheduler.program import SchedulerOptions, scheduler
from bench.real_kube import ApiServer, plane
from tests.kube.allotment_programs import running_programs

FEATURES = Features("1.36")
DRIVER = "gpu.example.com"
#: The same parameters in several formats; kubectl writes the first.
TEXTS = {
    "kubectl": '{"a":{"ratio":0.5},"kind":"GpuConfig","when":"x \\u003e 1 \\u0026\\u0026 y"}',
    "spaces": '{"a": {"ratio": 0.5}, "kind": "GpuConfig", "when": "x > 1 && y"}',
    "lines": '{\n  "a": {\n    "ratio": 5e-1\n  },\n  "kind": "GpuConfig",\n  "when": "x > 1 && y"\n}',
    "order": '{"when":"x > 1 && y","kind":"GpuConfig","a":{"ratio":0.5}}',
}


@pytest.fixture(scope="module")
def server(paths: dict[str, str]) -> Iterator[ApiServer]:
    """kube-scheduler runs alongside Allotment's scheduler; the claim controller is Allotment's."""
    with plane(paths, controllers="*,-resourceclaim-controller") as running:
        yield running


def post(server: ApiServer, path: str, text: str) -> None:
    """Create an object from exactly this text."""
    headers = {"Authorization": f"Bearer {server.server.token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{server.server.url}{path}", text.encode(), headers, method="POST")
    context: ssl.SSLContext = server.verified()
    with urllib.request.urlopen(request, context=context, timeout=120) as answer:
        assert answer.status == 201


def claim(name: str, parameters: str) -> str:
    tree = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}],
                             "config": [{"opaque": {"driver": DRIVER, "parameters": "HERE"}}]}},
    }  # fmt: skip
    return json.dumps(tree).replace('"HERE"', parameters)


def pod(name: str, claim: str, scheduler: str = "ours") -> Tree:
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimName": claim}]
    return {
        "metadata": {"name": name},
        "spec": {"containers": [container], "resourceClaims": claims, "schedulerName": scheduler},
    }


async def _create_objects(client: Client) -> None:
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "99"}}}
    devices = [{"name": f"gpu-{number}"} for number in range(16)]
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    for kind, tree in (
        (NODES, node),
        (DEVICE_CLASSES, {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}}),
        (SLICES, {"metadata": {"name": "n"}, "spec": {"driver": DRIVER, "nodeName": "n", "pool": pool,
                                                      "devices": devices}}),
    ):  # fmt: skip
        with suppress(StatusError):  # created by an earlier scenario
            await client.create(kind, tree)
    await client.patch(NODES, "n", {"spec": {"taints": []}})


async def _wait_for_claim(client: Client, name: str, true: Callable[[Tree], Any]) -> Tree:
    while not true(found := await client.get(CLAIMS, name, "default")):
        await asyncio.sleep(0.05)
    return found


def _users(tree: Tree) -> list[str]:
    return sorted(user["name"] for user in (tree.get("status") or {}).get("reservedFor") or ())


async def _write_device_status(client: Client, tree: Tree) -> Tree:
    """Apply the claim's device status, as drivers do when they prepare a device."""
    (result,) = tree["status"]["allocation"]["devices"]["results"]
    device = {"driver": result["driver"], "pool": result["pool"], "device": result["device"], "data": {"b": 1, "a": 2}}
    status = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": tree["metadata"]["name"], "namespace": "default"}, "status": {"devices": [device]},
    }  # fmt: skip
    name = tree["metadata"]["name"]
    return await client.patch(CLAIMS, name, status, "default", kind="apply", subresource="status", force=True)


def run_scenario(server: ApiServer, scenario: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        options = SchedulerOptions(FEATURES, "ours", settle=0.0)
        programs = {"resource-claims": resource_claims(FEATURES), "scheduler": scheduler(options)}
        async with running_programs(server, programs) as client:
            await _create_objects(client)
            await asyncio.wait_for(scenario(client), 300)

    asyncio.run(main())


@pytest.mark.parametrize("style", TEXTS)
def test_a_claim_is_allocated_shared_reported_and_released(server: ApiServer, style: str) -> None:
    post(server, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", claim(style, TEXTS[style]))

    async def scenario(client: Client) -> None:
        await client.create(PODS, pod(f"{style}-a", style), "default")
        await _wait_for_claim(client, style, lambda tree: _users(tree) == [f"{style}-a"])
        await client.create(PODS, pod(f"{style}-b", style), "default")
        found = await _wait_for_claim(client, style, lambda tree: _users(tree) == [f"{style}-a", f"{style}-b"])
        (config,) = found["status"]["allocation"]["devices"]["config"]
        assert config["opaque"]["parameters"] == json.loads(TEXTS[style])
        assert "devices" in (await _write_device_status(client, found))["status"]
        await client.delete(PODS, f"{style}-a", "default", grace_seconds=0)
        await _wait_for_claim(client, style, lambda tree: _users(tree) == [f"{style}-b"])
        await client.delete(PODS, f"{style}-b", "default", grace_seconds=0)
        await _wait_for_claim(client, style, lambda tree: not tree.get("status"))
        await client.delete(CLAIMS, style, "default")
        while (await client.list(CLAIMS, "default")).items:
            await asyncio.sleep(0.05)

    run_scenario(server, scenario)


@pytest.mark.parametrize("style", TEXTS)
def test_a_claim_allocated_by_kube_scheduler_is_shared_and_released(server: ApiServer, style: str) -> None:
    name = f"theirs-{style}"
    post(server, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", claim(name, TEXTS[style]))

    async def scenario(client: Client) -> None:
        await client.create(PODS, pod(f"{name}-a", name, "default-scheduler"), "default")
        await _wait_for_claim(client, name, lambda tree: _users(tree) == [f"{name}-a"])
        await client.create(PODS, pod(f"{name}-b", name), "default")
        await _wait_for_claim(client, name, lambda tree: _users(tree) == [f"{name}-a", f"{name}-b"])
        await client.delete(PODS, f"{name}-a", "default", grace_seconds=0)
        await _wait_for_claim(client, name, lambda tree: _users(tree) == [f"{name}-b"])
        await client.delete(PODS, f"{name}-b", "default", grace_seconds=0)
        await _wait_for_claim(client, name, lambda tree: not tree.get("status"))
        await client.delete(CLAIMS, name, "default")
        while (await client.list(CLAIMS, "default")).items:
            await asyncio.sleep(0.05)

    run_scenario(server, scenario)
