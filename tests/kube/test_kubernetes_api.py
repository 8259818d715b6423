"""Our scheduler, claim controller, kubelets and drivers on Kubernetes' own API server, as clients over HTTP.

None of Kubernetes' own controllers run.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from random import Random

import pytest

from allotment.cluster import program
from allotment.cluster.caches import Caches
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError
from allotment.cluster.recorder import Events
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import target
from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, PODS, SERVICE_ACCOUNTS
from allotment.lab import fleet
from allotment.lab.driver_environment import DriverEnvironment
from allotment.lab.drivers import Drivers
from allotment.lab.programs import programs
from allotment.model.features import Features
from allotment.model.trees import Tree
from allotment.node.kubelet import Kubelets
from allotment.node.node_config import Machine
from bench import real_kube
from tests.acting import condition

FEATURES = Features(kube="1.36")
TEMPLATE: Tree = {
    "metadata": {"name": "gpus"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}},
}


def pod(name: str, template: str) -> Tree:
    container = {"name": "main", "image": "cuda", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": template}]
    return {"metadata": {"name": name}, "spec": {"containers": [container], "resourceClaims": claims}}


@pytest.fixture(scope="module")
def kubernetes(paths: dict[str, str]) -> Iterator[real_kube.ApiServer]:
    with real_kube.api_server(paths, durable=False) as running:
        yield running


async def _on(server: real_kube.ApiServer, told: Callable[[Client], Awaitable[None]]) -> None:
    """Run our programs on a server for as long as a story takes."""
    where = target([server.kubeconfig])
    async with contextlib.AsyncExitStack() as stack:
        clients: dict[str, HttpClient] = {}

        def client_for(name: str, manager: str = "") -> HttpClient:
            if name not in clients:
                clients[name] = HttpClient(where, manager or name)
                stack.push_async_callback(clients[name].close)
            return clients[name]

        clock, random, mine = Clock(10), Random(), client_for("allotment")
        with contextlib.suppress(StatusError):  # Kubernetes has a controller for that, which does not run here
            await mine.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, "default")
        await fleet.publish(mine, ("t4-4x-pcie",), kube="1.36", version="test", now=clock.now())
        caches = Caches(mine, clock=clock, random=random)
        context = program.ProgramContext(client_for, caches, clock, Events(mine, clock=clock), random)
        machines: dict[str, Machine] = {}
        ground = DriverEnvironment(Kubelets(machines=machines), machines, FEATURES, boot="test")
        chosen = {
            name: one
            for name, one in programs(ground, Drivers(ground)).items()
            if name in ("drivers", "kubelets", "resource-claims", "scheduler")
        }
        running = asyncio.create_task(program.run(chosen, context))
        try:
            async with asyncio.timeout(300):
                await told(mine)
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


async def _becomes(client: Client, name: str, true: Callable[[Tree], bool]) -> Tree:
    while True:
        found = await client.get(PODS, name, "default")
        if true(found):
            return found
        await asyncio.sleep(0.05)


def test_a_pod_runs_with_its_claim(kubernetes: real_kube.ApiServer) -> None:
    async def told(client: Client) -> None:
        await client.create(CLAIM_TEMPLATES, TEMPLATE, "default")
        await client.create(PODS, pod("train", "gpus"), "default")
        running = await _becomes(client, "train", lambda tree: tree["status"].get("phase") == "Running")
        (named,) = running["status"]["resourceClaimStatuses"]
        claim = await client.get(CLAIMS, named["resourceClaimName"], "default")
        assert claim["status"]["reservedFor"] == [
            {"resource": "pods", "name": "train", "uid": running["metadata"]["uid"]}
        ]
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        assert (running["spec"]["nodeName"], result["driver"]) == ("t4-4x-pcie-1", "gpu.nvidia.com")
        while not (devices := claim["status"].get("devices")):  # told by the driver, a moment later
            await asyncio.sleep(0.05)
            claim = await client.get(CLAIMS, claim["metadata"]["name"], "default")
        assert (devices[0]["device"], devices[0]["data"]["type"]) == (result["device"], "gpu")

    asyncio.run(_on(kubernetes, told))


def test_a_pod_that_does_not_fit_is_told_why(kubernetes: real_kube.ApiServer) -> None:
    async def story(client: Client) -> None:
        asked = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 9}}
        many = {"metadata": {"name": "many"}, "spec": {"spec": {"devices": {"requests": [asked]}}}}
        await client.create(CLAIM_TEMPLATES, many, "default")
        await client.create(PODS, pod("greedy", "many"), "default")

        def told(tree: Tree) -> bool:  # the node's devices may be published after the pod was looked at
            return "9 devices requested; the node has 4" in condition(tree).get("message", "")

        waiting = condition(await _becomes(client, "greedy", told))
        assert (waiting["type"], waiting["reason"]) == ("PodScheduled", "Unschedulable")

    asyncio.run(_on(kubernetes, story))
