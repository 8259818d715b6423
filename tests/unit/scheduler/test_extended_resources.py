"""Pods that request devices by extended resources (KEP-5004): the scheduler creates their claim."""

from __future__ import annotations

from allotment.cluster.resources import CLAIMS
from allotment.model.resource import FINALIZER
from tests.unit.cluster import idle
from tests.unit.scheduler.world import NAMESPACE, claim, device_class, gpus, node, pod, world


def test_extended_resource_of_a_class_becomes_a_claim() -> None:
    async def scenario() -> None:
        served = device_class(extendedResourceName="example.com/gpu")
        requests = pod("p", limits={"example.com/gpu": "2"}, requests={"example.com/gpu": "2"})
        async with world(node("a"), gpus("a", 2), served, requests) as lab:
            await lab.bound("p")
            status = lab.pod("p")["status"]["extendedResourceClaimStatus"]
            assert status["requestMappings"] == [
                {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
            ]
            made = status["resourceClaimName"]
            assert lab.devices(made) == ["gpu-0", "gpu-1"]
            assert lab.users(made) == ["p"]
            assert lab.claim(made)["metadata"]["annotations"] == {
                "resource.kubernetes.io/extended-resource-claim": "true"
            }

    idle.run(scenario())


def test_a_pending_pod_with_extended_resources_counts_as_one_with_claims() -> None:
    async def scenario() -> None:
        served = device_class(extendedResourceName="example.com/gpu")
        requests = pod(
            "p", limits={"example.com/gpu": "1"}, requests={"example.com/gpu": "1"}, nodeSelector={"zone": "b"}
        )
        async with world(node("a"), gpus("a", 2), served, requests) as lab:
            assert ". still not schedulable, preemption:" in await lab.reported_message("p")

    idle.run(scenario())


def test_extended_resource_of_a_device_plugin_needs_no_claim() -> None:
    async def scenario() -> None:
        served = device_class(extendedResourceName="example.com/gpu")
        plugged = node("plugged", has={"example.com/gpu": "1"})
        requests = [pod(n, limits={"example.com/gpu": "1"}, requests={"example.com/gpu": "1"}) for n in ("p", "q")]
        async with world(plugged, node("a"), gpus("a", 1), served, *requests) as lab:
            await lab.bound("p", "q")
            by_node = {lab.node_of(n): lab.pod(n)["status"].get("extendedResourceClaimStatus") for n in ("p", "q")}
            assert by_node["plugged"] is None
            assert by_node["a"] is not None

    idle.run(scenario())


def test_leftover_claim_for_extended_resources_is_deleted_first() -> None:
    async def scenario() -> None:
        served = device_class(extendedResourceName="example.com/gpu")
        resource, requests = pod("p", limits={"example.com/gpu": "2"}, requests={"example.com/gpu": "2"})
        requests["metadata"]["uid"] = "p-uid"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p-uid", "controller": True}
        result = {"request": "gpu", "driver": "gpu.example.com", "pool": "a", "device": "gpu-0"}
        left = claim(
            "p-extended-resources-old",
            annotations={"resource.kubernetes.io/extended-resource-claim": "true"},
            ownerReferences=[owner],
            finalizers=[FINALIZER],
            status={"allocation": {"devices": {"results": [result]}}},
        )
        async with world(node("a"), gpus("a", 2), served, left, (resource, requests)) as lab:
            await lab.bound("p")
            made = lab.pod("p")["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
            assert made != "p-extended-resources-old"
            assert lab.devices(made) == ["gpu-0", "gpu-1"]
            assert (CLAIMS, NAMESPACE, "p-extended-resources-old") not in lab.client.objects

    idle.run(scenario())
