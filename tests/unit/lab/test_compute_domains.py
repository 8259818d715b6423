"""ComputeDomains in a lab: from the vendor's example to a pod with a channel."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from allotment.cluster.client import Client
from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, DAEMON_SETS, EVENTS, NAMESPACES, NODES, PODS, SLICES
from allotment.drivers.nvidia.compute_domain.crd import install
from allotment.drivers.nvidia.compute_domain.names import COMPUTE_DOMAINS, DRIVER_NAMESPACE, LABEL
from allotment.lab.compute_domains import CLIQUE
from allotment.lab.control_plane import Plane, running
from allotment.lab.fleet import HARDWARE
from allotment.lab.settings import Settings
from allotment.model.trees import Tree
from tests.polling import until

TIMEOUT = 20.0
DRIVER = "compute-domain.nvidia.com"


def in_lab(test: Callable[[Plane], Awaitable[None]], *fleet: str) -> None:
    async def scenario() -> None:
        async with running(Settings(fleet=fleet, tls=False, speed=50.0)) as plane:
            await test(plane)

    asyncio.run(scenario())


async def describe_pods(client: Client) -> str:
    return "\n".join(f"{event['reason']}: {event.get('message')}" for event in (await client.list(EVENTS)).items)


async def apply(client: Client, tree: Tree) -> Tree:
    resources = {"ComputeDomain": COMPUTE_DOMAINS, "Pod": PODS}
    return await client.create(resources[tree["kind"]], tree, "default")


def example(shared: Callable[[str], Path]) -> list[Tree]:
    text = shared("manifests/nvidia/imex/channel-injection.yaml").read_text()
    return [tree for tree in yaml.safe_load_all(text) if tree]


async def running_pod(client: Client, name: str) -> bool:
    return bool((await client.get(PODS, name, "default")).get("status", {}).get("phase") == "Running")


def test_the_vendors_example_runs_and_is_cleaned_up(shared: Callable[[str], Path]) -> None:
    async def scenario(plane: Plane) -> None:
        client = plane.client()
        assert not [slice_ for slice_ in (await client.list(SLICES)).items if slice_["spec"]["driver"] == DRIVER]
        await client.patch(NODES, "n1", {"metadata": {"labels": {CLIQUE: "fab-1.0"}}})
        await install(client)
        domain, pod = example(shared)

        async def served() -> bool:
            return any(slice_["spec"]["driver"] == DRIVER for slice_ in (await client.list(SLICES)).items)

        await until(served, lambda: describe_pods(client))
        await apply(client, domain)
        await apply(client, pod)
        await until(lambda: running_pod(client, "imex-channel-injection"), lambda: describe_pods(client))

        async def status() -> dict[str, Any]:
            tree = await client.get(COMPUTE_DOMAINS, domain["metadata"]["name"], "default")
            found: dict[str, Any] = tree.get("status") or {}
            return found

        async def ready() -> bool:
            found = await status()
            return found.get("status") == "Ready" and found["nodes"][0]["cliqueID"] == "fab-1.0"

        await until(ready, lambda: describe_pods(client))
        (node,) = (await status())["nodes"]
        assert (node["name"], node["index"]) == ("n1", 0)
        assert LABEL in (await client.get(NODES, "n1"))["metadata"]["labels"]

        await client.delete(COMPUTE_DOMAINS, domain["metadata"]["name"], "default")
        await client.delete(PODS, "imex-channel-injection", "default", grace_seconds=0)

        async def gone() -> bool:
            left = [(await client.list(resource)).items for resource in (COMPUTE_DOMAINS, DAEMON_SETS, CLAIMS)]
            return not any(left) and LABEL not in (await client.get(NODES, "n1"))["metadata"]["labels"]

        await until(gone, lambda: describe_pods(client))
        assert not (await client.list(PODS, DRIVER_NAMESPACE)).items

    in_lab(scenario, "n1=dgx-a100-40gb")


def test_a_domain_of_two_nodes_is_ready_when_both_nodes_are(shared: Callable[[str], Path]) -> None:
    async def scenario(plane: Plane) -> None:
        client = plane.client()
        await install(client)
        domain, pod = example(shared)
        domain["spec"]["numNodes"] = 2

        async def served() -> bool:
            return (
                len([slice_ for slice_ in (await client.list(SLICES)).items if slice_["spec"]["driver"] == DRIVER]) == 2
            )

        await until(served, lambda: describe_pods(client))
        await apply(client, domain)
        for name in ("one", "two"):
            await apply(client, {**pod, "metadata": {"name": name}})
        for name in ("one", "two"):
            await until(partial(running_pod, client, name), lambda: describe_pods(client))

        async def ready() -> bool:
            status = (await client.get(COMPUTE_DOMAINS, domain["metadata"]["name"], "default"))["status"]
            return status["status"] == "Ready" and [node["index"] for node in status["nodes"]] == [0, 1]

        await until(ready, lambda: describe_pods(client))

    in_lab(scenario, "dgx-a100-40gb:2")


def test_another_namespaces_claim_never_gets_a_channel(shared: Callable[[str], Path]) -> None:
    async def scenario(plane: Plane) -> None:
        client = plane.client()
        await install(client)
        domain, pod = example(shared)
        await apply(client, domain)
        template: list[Tree] = []

        async def made() -> bool:
            template[:] = (await client.list(CLAIM_TEMPLATES, "default")).items
            return bool(template)

        await until(made, lambda: describe_pods(client))
        await client.create(NAMESPACES, {"metadata": {"name": "other"}})
        stolen = {"metadata": {"name": template[0]["metadata"]["name"]}, "spec": template[0]["spec"]}
        await client.create(CLAIM_TEMPLATES, stolen, "other")
        await client.create(PODS, pod, "other")

        async def refused() -> bool:
            events = (await client.list(EVENTS, "other")).items
            return any("its ComputeDomain imex-channel-injection is in default" in e["message"] for e in events)

        await until(refused, lambda: describe_pods(client))

    in_lab(scenario, "n1=dgx-a100-40gb")


def test_a_node_that_gets_other_hardware_withdraws_its_devices() -> None:
    async def story(plane: Plane) -> None:
        client = plane.client()
        await install(client)

        async def published() -> bool:
            return any(tree["spec"]["driver"] == DRIVER for tree in (await client.list(SLICES)).items)

        async def withdrawn() -> bool:
            return not await published()

        await until(published, lambda: describe_pods(client))
        await client.patch(NODES, "n1", {"metadata": {"annotations": {HARDWARE: "mi300x"}}})
        await until(withdrawn, lambda: describe_pods(client))
        await client.patch(NODES, "n1", {"metadata": {"annotations": {HARDWARE: "l4"}}})
        await until(published, lambda: describe_pods(client))

    in_lab(story, "n1=dgx-a100-40gb")
