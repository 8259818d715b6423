"""Allotment's programs on API servers that serve only the versions of Kubernetes 1.32 and 1.33: v1beta1, or v1beta2 as
well.

The programs use v1; the client discovers the served version and converts.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from random import Random

import pytest

from allotment.cluster import program
from allotment.cluster.caches import Caches
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.release import FeatureOverrides, features_of
from allotment.cluster.recorder import Events
from allotment.cluster.remote.version_negotiation import (
    ApiClient,
    DeviceApiNotServed,
    NegotiatingClient,
    ServedVersions,
)
from allotment.cluster.resources import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    PODS,
    SERVICE_ACCOUNTS,
    SLICES,
    TAINT_RULES,
)
from allotment.controllers.device_taints import device_taints
from allotment.controllers.resource_claims import resource_claims
from allotment.lab import fleet
from allotment.model.trees import Tree
from allotment.scheduler.program import SchedulerOptions, scheduler
from bench.real_kube import ApiServer, api_server

#: The served versions, and the feature gates that these need.
OLD_VERSIONS = {
    "v1beta2": "resource.k8s.io/v1=false,resource.k8s.io/v1beta2=true,resource.k8s.io/v1alpha3=true",
    "v1beta1": "resource.k8s.io/v1=false,resource.k8s.io/v1beta1=true,resource.k8s.io/v1alpha3=true",
}
GATES = {"DRADeviceTaintRules": True}
REQUEST: Tree = {
    "name": "gpu",
    "exactly": {
        "deviceClassName": "gpu.nvidia.com",
        "selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}],
    },
}


@pytest.fixture(scope="module", params=OLD_VERSIONS)
def old(request: pytest.FixtureRequest, paths: dict[str, str]) -> Iterator[tuple[ApiServer, str]]:
    # kube-controller-manager's taint eviction reads slices in v1 and would not become ready without it.
    config = OLD_VERSIONS[request.param]
    with api_server(paths, runtime_config=config, gates=GATES, durable=False, authorization="RBAC") as running:
        yield running, request.param


def run_programs(server: ApiServer, scenario: Callable[[NegotiatingClient], Awaitable[None]]) -> None:
    """Run Allotment's programs on a server while the scenario runs."""

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(asyncio.timeout(300))
            plain = await stack.enter_async_context(server.client("allotment"))
            client = NegotiatingClient(plain)
            await client.versions.check_device_api()
            features = await features_of(plain, FeatureOverrides())
            clock, random = Clock(), Random()
            context = program.ProgramContext(
                lambda name, manager="": client, Caches(client, clock=clock, random=random), clock,
                Events(client, clock=clock), random,
            )  # fmt: skip
            programs = {
                "claims": resource_claims(features), "taints": device_taints(features),
                "scheduler": scheduler(SchedulerOptions(features)),
            }  # fmt: skip
            running = asyncio.create_task(program.run(programs, context))
            try:
                await scenario(client)
            finally:
                running.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await running

    asyncio.run(main())


async def _create_objects(client: ApiClient) -> None:
    with contextlib.suppress(StatusError):
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, "default")
    await fleet.publish(client, ("t4-4x-pcie",), kube="1.36", version="test", now=Clock().now())
    pool = {"name": "t4-4x-pcie-1", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{n}", "attributes": {"type": {"string": "gpu"}}} for n in range(2)]
    spec = {"driver": "gpu.nvidia.com", "nodeName": "t4-4x-pcie-1", "pool": pool, "devices": devices}
    await client.create(SLICES, {"metadata": {"name": "t4"}, "spec": spec})
    await client.create(CLAIM_TEMPLATES, {
        "metadata": {"name": "gpu"}, "spec": {"spec": {"devices": {"requests": [REQUEST]}}},
    }, "default")  # fmt: skip


def _pod(name: str) -> Tree:
    container = {"name": "main", "image": "cuda", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    return {"metadata": {"name": name}, "spec": {"containers": [container], "resourceClaims": claims}}


async def _bound(client: ApiClient, name: str) -> Tree:
    while not (pod := await client.get(PODS, name, "default"))["spec"].get("nodeName"):
        await asyncio.sleep(0.05)
    return pod


def test_a_pod_gets_its_device_and_is_evicted_from_it(old: tuple[ApiServer, str]) -> None:
    server, version = old

    async def scenario(client: NegotiatingClient) -> None:
        await _create_objects(client)
        await client.create(PODS, _pod("train"), "default")
        pod = await _bound(client, "train")
        (named,) = pod["status"]["resourceClaimStatuses"]
        claim = await client.get(CLAIMS, named["resourceClaimName"], "default")
        assert claim["apiVersion"] == "resource.k8s.io/v1"
        (request,) = claim["spec"]["devices"]["requests"]
        assert request["exactly"] == {**REQUEST["exactly"], "allocationMode": "ExactCount", "count": 1}
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        assert result["driver"] == "gpu.nvidia.com"
        assert claim["status"]["reservedFor"][0]["uid"] == pod["metadata"]["uid"]

        # As the server stores it; the programs only see v1.
        existing = CLAIMS._replace(version=version)
        (raw,) = (await client.get(existing, claim["metadata"]["name"], "default"))["spec"]["devices"]["requests"]
        assert ("exactly" in raw) == (version == "v1beta2")

        taint = {"key": "example.com/broken", "effect": "NoExecute"}
        selector = {"driver": result["driver"], "pool": result["pool"], "device": result["device"]}
        rule = await client.create(
            TAINT_RULES, {"metadata": {"name": "broken"}, "spec": {"deviceSelector": selector, "taint": taint}}
        )
        assert rule["apiVersion"] == TAINT_RULES.api_version
        # It was bound, and no kubelet completes its deletion: it only has a deletion timestamp.
        while "deletionTimestamp" not in (await client.get(PODS, "train", "default"))["metadata"]:
            await asyncio.sleep(0.05)

    run_programs(server, scenario)


def test_every_verb_uses_v1(old: tuple[ApiServer, str]) -> None:
    server, _ = old

    async def scenario() -> None:
        async with server.client("tests") as plain:
            client = NegotiatingClient(plain)
            await client.versions.check_device_api()
            listing = await client.list(CLAIMS, "default")
            claim = {"metadata": {"name": "one"}, "spec": {"devices": {"requests": [REQUEST]}}}
            created = await client.create(CLAIMS, claim, "default")
            assert created["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu.nvidia.com"
            labelled = {**created, "metadata": {**created["metadata"], "labels": {"a": "b"}}}
            updated = await client.update(CLAIMS, labelled)
            assert updated["spec"] == created["spec"]
            patched = await client.patch(CLAIMS, "one", {"metadata": {"labels": {"c": "d"}}}, "default")
            assert patched["metadata"]["labels"] == {"a": "b", "c": "d"}
            test = {"op": "test", "path": "/spec/devices/requests/0/exactly/deviceClassName", "value": "gpu.nvidia.com"}
            add = {"op": "add", "path": "/metadata/labels/e", "value": "f"}
            tested = await client.patch(CLAIMS, "one", [test, add], "default", kind="json")
            assert tested["metadata"]["labels"]["e"] == "f"
            applied = {**claim, "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
            again = await client.patch(CLAIMS, "one", applied, "default", kind="apply", force=True)
            assert again["spec"] == created["spec"]
            gone = await client.delete(CLAIMS, "one", "default", uid=created["metadata"]["uid"])
            assert gone["apiVersion"] == "resource.k8s.io/v1"
            seen = []
            async for event in client.watch(CLAIMS, "default", revision=listing.revision):
                if event.object["metadata"]["name"] == "one":
                    seen.append(event.type)
                    assert event.object["spec"] == created["spec"]
                if event.type == "DELETED":
                    break
            assert seen == ["ADDED", *["MODIFIED"] * 4, "DELETED"]

            device = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}
            spec = {"driver": "d", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                    "devices": [device]}  # fmt: skip
            published = await client.create(SLICES, {"metadata": {"name": "s"}, "spec": spec})
            assert published["spec"]["devices"] == [device]
            (listed,) = (await client.list(SLICES, fields="spec.driver=d")).items
            assert listed["spec"]["devices"] == [device]
            path = "/spec/devices/0/attributes/type/string"
            changed = await client.patch(SLICES, "s", [{"op": "replace", "path": path, "value": "x"}], kind="json")
            assert changed["spec"]["devices"][0]["attributes"]["type"] == {"string": "x"}
            assert (await client.list(DEVICE_CLASSES)).revision

    asyncio.run(asyncio.wait_for(scenario(), 300))


def test_a_cluster_without_the_resource_api_is_an_error(paths: dict[str, str]) -> None:
    async def scenario(server: ApiServer) -> None:
        async with server.client("tests") as plain:
            with pytest.raises(
                DeviceApiNotServed,
                match=r"does not serve resource\.k8s\.io: expected v1, v1beta2 or v1beta1, found none",
            ):
                await ServedVersions(plain).check_device_api()
            # Programs that connect later get the same error.
            with pytest.raises(StatusError) as raised:
                await NegotiatingClient(plain).list(CLAIMS)
            assert raised.value.code == 404

    with api_server(paths, runtime_config="resource.k8s.io/v1=false", durable=False, authorization="RBAC") as server:
        asyncio.run(asyncio.wait_for(scenario(server), 300))
