"""Allotment's scheduler, claim controller, kubelets and drivers on Kubernetes' own API server, as clients over HTTP.

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
from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, CONFIG_MAPS, PODS, SERVICE_ACCOUNTS
from allotment.lab import fleet
from allotment.lab.driver_environment import DriverEnvironment
from allotment.lab.node_drivers import NodeDrivers
from allotment.lab.programs import programs
from allotment.model.features import Features
from allotment.model.trees import Tree
from allotment.node.kubelet import Kubelets
from allotment.node.node_config import Machine
from bench import real_kube
from tests.cluster_actions import scheduled_condition

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


async def _run_programs(server: real_kube.ApiServer, scenario: Callable[[Client], Awaitable[None]]) -> None:
    """Run Allotment's programs on a server while the scenario runs."""
    where = target([server.kubeconfig])
    async with contextlib.AsyncExitStack() as stack:
        clients: dict[str, HttpClient] = {}

        def client_for(name: str, manager: str = "") -> HttpClient:
            if name not in clients:
                clients[name] = HttpClient(where, manager or name)
                stack.push_async_callback(clients[name].close)
            return clients[name]

        clock, random, identity = Clock(10), Random(), client_for("allotment")
        # Pods wait for these objects; Kubernetes' controllers, which create them, do not run here.
        with contextlib.suppress(StatusError):
            await identity.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, "default")
        with contextlib.suppress(StatusError):
            authorities = {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": ""}}
            await identity.create(CONFIG_MAPS, authorities, "default")
        await fleet.publish(identity, ("t4-4x-pcie",), kube="1.36", version="test", now=clock.now())
        caches = Caches(identity, clock=clock, random=random)
        context = program.ProgramContext(client_for, caches, clock, Events(identity, clock=clock), random)
        machines: dict[str, Machine] = {}
        environment = DriverEnvironment(Kubelets(machines=machines), machines, FEATURES, boot="test")
        chosen = {
            name: program_
            for name, program_ in programs(environment, NodeDrivers("drivers", environment)).items()
            if name in ("drivers", "kubelets", "resource-claims", "scheduler")
        }
        running = asyncio.create_task(program.run(chosen, context))
        try:
            async with asyncio.timeout(300):
                await scenario(identity)
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


async def _wait_for_pod(client: Client, name: str, true: Callable[[Tree], bool]) -> Tree:
    while True:
        found = await client.get(PODS, name, "default")
        if true(found):
            return found
        await asyncio.sleep(0.05)


def test_a_pod_runs_with_its_claim(kubernetes: real_kube.ApiServer) -> None:
    async def scenario(client: Client) -> None:
        await client.create(CLAIM_TEMPLATES, TEMPLATE, "default")
        await client.create(PODS, pod("train", "gpus"), "default")
        running = await _wait_for_pod(client, "train", lambda tree: tree["status"].get("phase") == "Running")
        (named,) = running["status"]["resourceClaimStatuses"]
        claim = await client.get(CLAIMS, named["resourceClaimName"], "default")
        assert claim["status"]["reservedFor"] == [
            {"resource": "pods", "name": "train", "uid": running["metadata"]["uid"]}
        ]
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        assert (running["spec"]["nodeName"], result["driver"]) == ("t4-4x-pcie-1", "gpu.nvidia.com")
        while not (devices := claim["status"].get("devices")):  # the driver reports it a moment later
            await asyncio.sleep(0.05)
            claim = await client.get(CLAIMS, claim["metadata"]["name"], "default")
        assert (devices[0]["device"], devices[0]["data"]["type"]) == (result["device"], "gpu")

    asyncio.run(_run_programs(kubernetes, scenario))


def test_a_pod_that_does_not_fit_gets_the_reason(kubernetes: real_kube.ApiServer) -> None:
    async def scenario(client: Client) -> None:
        device_request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 9}}
        many = {"metadata": {"name": "many"}, "spec": {"spec": {"devices": {"requests": [device_request]}}}}
        await client.create(CLAIM_TEMPLATES, many, "default")
        await client.create(PODS, pod("greedy", "many"), "default")

        def is_reported(tree: Tree) -> bool:  # the node's devices may be published after the pod was tried
            return "9 devices requested; the node has 4" in scheduled_condition(tree).get("message", "")

        waiting = scheduled_condition(await _wait_for_pod(client, "greedy", is_reported))
        assert (waiting["type"], waiting["reason"]) == ("PodScheduled", "Unschedulable")

    asyncio.run(_run_programs(kubernetes, scenario))
