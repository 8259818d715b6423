"""The ComputeDomain controller alone, and with drivers that prepare claims from its templates."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from allotment.cluster.client import Resource
from allotment.cluster.program import ProgramContext
from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, DAEMON_SETS, NAMESPACES, NODES, PODS
from allotment.drivers.driver import AllocatedClaim, AllocatedDevice
from allotment.drivers.nvidia.compute_domain.controller import compute_domains
from allotment.drivers.nvidia.compute_domain.domains import CachedDomains
from allotment.drivers.nvidia.compute_domain.driver import ComputeDomainDriver
from allotment.drivers.nvidia.compute_domain.fabric import SimulatedFabric
from allotment.drivers.nvidia.compute_domain.names import (
    CHANNEL_CLASS,
    COMPUTE_DOMAINS,
    DAEMON_CLASS,
    DRIVER_NAMESPACE,
    FINALIZER,
    LABEL,
    objects_name,
)
from allotment.drivers.nvidia.compute_domain.objects import workload_template
from allotment.drivers.preparation import configuration
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.memory import MemoryClient, refusal
from tests.unit.controllers.world import NAMESPACE, World, world

UID = "cd-1"
NAME = objects_name(UID)
CHANNEL = "channel-0"

Scenario = Callable[[World], Awaitable[None]]


def run_with_controller(scenario: Scenario) -> None:
    async def main() -> None:
        async with world(compute_domains) as w:
            await scenario(w)

    idle.run(main())


def domain(w: World, nodes: int = 0, **channel: Any) -> Tree:
    spec = {"numNodes": nodes, "channel": {"resourceClaimTemplate": {"name": "imex"}, **channel}}
    return w.put(COMPUTE_DOMAINS, {"metadata": {"name": "training", "uid": UID}, "spec": spec})


def object_names(w: World) -> dict[str, list[str]]:
    return {kind.kind: sorted(w.names(kind)) for kind in (CLAIM_TEMPLATES, DAEMON_SETS)}


def status(w: World) -> Tree:
    stored: Tree = w.get(COMPUTE_DOMAINS, "training").get("status") or {}
    return stored


def in_use(w: World, node: str, name: str = "") -> Tree:
    """A workload's claim with a channel on a node."""
    template = w.get(CLAIM_TEMPLATES, "imex")["spec"]["spec"]["devices"]
    result = {"request": "channel", "driver": "compute-domain.nvidia.com", "pool": node, "device": CHANNEL}
    config = [{"source": "FromClaim", **entry} for entry in template["config"]]
    allocation = {"devices": {"results": [result], "config": config}}
    return w.put(CLAIMS, {"metadata": {"name": name or f"w-{node}"}, "spec": {}, "status": {"allocation": allocation}})


def daemon_pod(w: World, node: str, *, clique: str = "fab.0", ready: bool = True) -> None:
    """Put the DaemonSet's pod on a node, with its claim and the driver's status data."""
    metadata = {"name": f"d-{node}", "namespace": DRIVER_NAMESPACE, "labels": {LABEL: UID}}
    device = {"driver": "compute-domain.nvidia.com", "pool": node, "device": "daemon-0", "data": {"cliqueID": clique}}
    w.put(CLAIMS, {"metadata": metadata, "spec": {}, "status": {"devices": [device]}})
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    claims = [{"name": "daemon", "resourceClaimName": f"d-{node}"}]
    pod_status = {"podIP": "10.0.0.1", "conditions": conditions, "resourceClaimStatuses": claims}
    w.put(PODS, {"metadata": metadata, "spec": {"nodeName": node}, "status": pod_status})


def test_a_domain_gets_claim_templates_and_a_daemon_set() -> None:
    async def scenario(w: World) -> None:
        domain(w, allocationMode="All")
        await w.until(lambda: object_names(w) == {"ResourceClaimTemplate": [NAME, "imex"], "DaemonSet": [NAME]})
        assert FINALIZER in w.get(COMPUTE_DOMAINS, "training")["metadata"]["finalizers"]
        workload = w.get(CLAIM_TEMPLATES, "imex")
        assert workload["metadata"]["ownerReferences"][0]["uid"] == UID
        (request,) = workload["spec"]["spec"]["devices"]["requests"]
        assert request["exactly"]["deviceClassName"] == CHANNEL_CLASS
        (config,) = workload["spec"]["spec"]["devices"]["config"]
        assert config["opaque"]["parameters"] == {
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "ComputeDomainChannelConfig",
            "domainID": UID,
            "allocationMode": "All",
        }
        daemons = w.client.objects[DAEMON_SETS, DRIVER_NAMESPACE, NAME]["spec"]["template"]["spec"]
        assert daemons["nodeSelector"] == {LABEL: UID}
        assert daemons["resourceClaims"][0]["resourceClaimTemplateName"] == NAME
        template = w.client.objects[CLAIM_TEMPLATES, DRIVER_NAMESPACE, NAME]["spec"]["spec"]["devices"]
        assert template["requests"][0]["exactly"]["deviceClassName"] == DAEMON_CLASS
        await w.until(lambda: status(w) == {"status": "NotReady", "nodes": []})

    run_with_controller(scenario)


def test_deleted_objects_are_created_again() -> None:
    async def scenario(w: World) -> None:
        domain(w)
        await w.until(lambda: w.names(DAEMON_SETS))
        await w.settled()
        w.client.remove(DAEMON_SETS, DRIVER_NAMESPACE, NAME)
        w.remove(CLAIM_TEMPLATES, "imex")
        await w.until(lambda: object_names(w) == {"ResourceClaimTemplate": [NAME, "imex"], "DaemonSet": [NAME]})

    run_with_controller(scenario)


def test_the_daemon_namespace_is_created_when_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(w: World) -> None:
        create = w.client.create

        async def strict(resource: Resource, tree: Tree, namespace: str = "", **more: Any) -> Tree:
            if namespace == DRIVER_NAMESPACE and not w.names(NAMESPACES):
                raise refusal(404, "NotFound", f'namespaces "{namespace}" not found')
            return await create(resource, tree, namespace, **more)

        monkeypatch.setattr(w.client, "create", strict)
        domain(w)
        await w.until(lambda: w.names(DAEMON_SETS))
        assert w.names(NAMESPACES) == [DRIVER_NAMESPACE]

    run_with_controller(scenario)


def test_an_unrelated_template_with_the_same_name_is_not_changed() -> None:
    async def scenario(w: World) -> None:
        unrelated = w.put(CLAIM_TEMPLATES, {"metadata": {"name": "imex"}, "spec": {}})
        domain(w)
        await w.until(lambda: w.events("NameTaken"))
        assert w.get(CLAIM_TEMPLATES, "imex") == unrelated

    run_with_controller(scenario)


def test_the_status_lists_nodes_with_cliques_and_indexes() -> None:
    async def scenario(w: World) -> None:
        domain(w, nodes=2)
        daemon_pod(w, "b")
        await w.until(lambda: status(w).get("nodes"))
        expected = {"name": "b", "ipAddress": "10.0.0.1", "cliqueID": "fab.0", "index": 0, "status": "Ready"}
        assert status(w) == {"status": "NotReady", "nodes": [expected]}
        daemon_pod(w, "a", ready=False)
        daemon_pod(w, "c", clique="fab.1")
        await w.until(lambda: len(status(w)["nodes"]) == 3)
        numbers = {node["name"]: (node["cliqueID"], node["index"]) for node in status(w)["nodes"]}
        # The first node keeps its index.
        assert numbers == {"a": ("fab.0", 1), "b": ("fab.0", 0), "c": ("fab.1", 0)}
        assert status(w)["status"] == "NotReady"
        daemon_pod(w, "a")
        await w.until(lambda: status(w)["status"] == "Ready")
        w.client.remove(PODS, DRIVER_NAMESPACE, "d-b")
        await w.until(lambda: [node["name"] for node in status(w)["nodes"]] == ["a", "c"])

    run_with_controller(scenario)


def test_a_node_leaves_a_domain_with_its_last_channel() -> None:
    async def scenario(w: World) -> None:
        domain(w)
        await w.until(lambda: "imex" in w.names(CLAIM_TEMPLATES))
        in_use(w, "n1")
        in_use(w, "n1", "second")
        w.put(NODES, {"metadata": {"name": "n1", "labels": {LABEL: UID, "zone": "a"}}})
        await w.settled()
        w.remove(CLAIMS, "second")
        await w.settled()
        assert LABEL in w.get(NODES, "n1")["metadata"]["labels"]
        w.remove(CLAIMS, "w-n1")
        await w.until(lambda: w.get(NODES, "n1")["metadata"]["labels"] == {"zone": "a"})

    run_with_controller(scenario)


def test_a_domain_is_deleted_after_its_workload() -> None:
    async def scenario(w: World) -> None:
        domain(w)
        await w.until(lambda: "imex" in w.names(CLAIM_TEMPLATES))
        in_use(w, "n1")
        w.put(NODES, {"metadata": {"name": "n1", "labels": {LABEL: UID}}})
        await w.settled()
        await w.client.delete(COMPUTE_DOMAINS, "training", NAMESPACE)
        await w.until(lambda: "imex" not in w.names(CLAIM_TEMPLATES))
        await w.settled()
        assert object_names(w) == {"ResourceClaimTemplate": [NAME], "DaemonSet": [NAME]}
        w.remove(CLAIMS, "w-n1")
        await w.until(lambda: not w.names(COMPUTE_DOMAINS))
        assert object_names(w) == {"ResourceClaimTemplate": [], "DaemonSet": []}
        assert LABEL not in w.get(NODES, "n1")["metadata"]["labels"]

    run_with_controller(scenario)


def test_the_label_of_a_deleted_domain_is_removed() -> None:
    async def scenario(w: World) -> None:
        w.put(NODES, {"metadata": {"name": "n1", "labels": {LABEL: "cd-old"}}})
        await w.until(lambda: LABEL not in w.get(NODES, "n1")["metadata"]["labels"])

    run_with_controller(scenario)


# --- with drivers ---------------------------------------------------------------------------------------------------


async def daemons(context: ProgramContext) -> None:
    """Simulate DaemonSet controller, scheduler and kubelet: a ready pod on each labelled node."""
    client, nodes = context.client_for("test"), context.caches.trees(NODES)
    assert isinstance(client, MemoryClient)
    w = World(client)
    await nodes.synced.wait()
    nodes.on_change(lambda old, new: daemon_pod(w, new.name) if new is not None and LABEL in new.labels else None)
    await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("names", [("n1",), ("n1", "n2", "n3")])
def test_channels_of_all_nodes_become_ready_together(names: tuple[str, ...]) -> None:
    held: list[ProgramContext] = []

    async def hold(context: ProgramContext) -> None:
        held.append(context)
        context.caches.trees(COMPUTE_DOMAINS)
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        async with world(hold, compute_domains, daemons) as w:
            for name in names:
                w.put(NODES, {"metadata": {"name": name}})
            domain(w, nodes=len(names))
            await w.until(lambda: "imex" in w.names(CLAIM_TEMPLATES) and held)
            cache = held[0].caches.trees(COMPUTE_DOMAINS)
            await w.until(lambda: len(cache) == 1)
            domains = CachedDomains(cache, held[0].clock)

            async def prepare(name: str) -> Any:
                driver = ComputeDomainDriver(name, SimulatedFabric("fab.0"), w.client, domains, ready_timeout=5.0)
                tree = in_use(w, name)
                parameters = tree["status"]["allocation"]["devices"]["config"][0]["opaque"]["parameters"]
                config = configuration.decode(parameters, driver.configs)
                claim = AllocatedClaim(name, NAMESPACE, name, (AllocatedDevice("channel", name, CHANNEL, config),))
                return await driver.prepare(claim, driver.plan(claim))

            prepared = await asyncio.gather(*map(prepare, names))
            assert all(each.devices for each in prepared)
            await w.until(lambda: status(w)["status"] == "Ready")
            assert sorted(node["index"] for node in status(w)["nodes"]) == list(range(len(names)))

    idle.run(main())


def test_waiting_for_a_node_times_out() -> None:
    held: list[ProgramContext] = []

    async def hold(context: ProgramContext) -> None:
        context.caches.trees(COMPUTE_DOMAINS)
        held.append(context)
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        async with world(hold) as w:
            domain(w)
            await w.until(lambda: held and len(held[0].caches.trees(COMPUTE_DOMAINS)))
            domains = CachedDomains(held[0].caches.trees(COMPUTE_DOMAINS), held[0].clock)
            assert domains.find(UID) is not None
            assert domains.find("other") is None
            assert not await domains.wait(UID, "n1", 0.01)
            nodes = [{"name": "n1", "status": "Ready"}, {"name": "n2", "status": "NotReady"}]
            waiting = asyncio.create_task(domains.wait(UID, "n1", 5.0))
            w.change(COMPUTE_DOMAINS, "training", status={"nodes": nodes})
            assert await waiting
            assert not await domains.wait(UID, "n2", 0.01)

    idle.run(main())


def test_the_vendors_example_is_a_domain_of_the_kind(shared: Callable[[str], Path]) -> None:
    text = shared("manifests/nvidia/imex/channel-injection.yaml").read_text()
    example = next(tree for tree in yaml.safe_load_all(text) if tree and tree["kind"] == "ComputeDomain")
    assert example["apiVersion"] == COMPUTE_DOMAINS.api_version
    template = workload_template({**example, "metadata": {**example["metadata"], "namespace": "d", "uid": UID}})
    assert template["metadata"]["name"] == "imex-channel-0"
