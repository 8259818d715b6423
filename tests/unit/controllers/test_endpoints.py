"""Endpoints follow the pods that a Service selects."""

from __future__ import annotations

from typing import Any

from allotment.cluster.resources import ENDPOINT_SLICES, ENDPOINTS, PODS, SERVICES
from allotment.controllers.endpoints import endpoints
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.controllers.world import World, pod, world


def service(name: str = "web", **spec: Any) -> Tree:
    ports = [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]
    return {"metadata": {"name": name}, "spec": {"selector": {"app": "web"}, "ports": ports, **spec}}


def backend(name: str, address: str, port: int = 8080, ready: bool = True, **metadata: Any) -> Tree:
    container = {"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": port}]}
    metadata.setdefault("labels", {"app": "web"})
    return pod(
        name, node="n1", phase="Running", ready=ready, spec={"containers": [container]}, status={"podIP": address},
        **metadata,
    )  # fmt: skip


def addresses(cluster: World) -> dict[str, bool]:
    """Every address with whether it is ready."""
    return {
        endpoint["addresses"][0]: endpoint["conditions"]["ready"]
        for slice_ in cluster.all(ENDPOINT_SLICES)
        for endpoint in slice_["endpoints"] or ()
    }


def test_endpoints_follow_pods_as_they_start_become_ready_and_end() -> None:
    async def scenario() -> None:
        async with world(endpoints) as cluster:
            cluster.put(SERVICES, service())
            await cluster.until(lambda: len(cluster.all(ENDPOINT_SLICES)) == 1)
            cluster.put(PODS, backend("a", "10.0.0.1"))
            cluster.put(PODS, backend("b", "10.0.0.2", ready=False))
            cluster.put(PODS, backend("other", "10.0.0.3", labels={"app": "other"}))
            await cluster.until(lambda: addresses(cluster) == {"10.0.0.1": True, "10.0.0.2": False})
            [slice_] = cluster.all(ENDPOINT_SLICES)
            assert slice_["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
            assert slice_["ports"] == [{"name": "http", "protocol": "TCP", "port": 8080}]
            assert slice_["endpoints"][0]["targetRef"]["name"] == "a"
            [subset] = cluster.get(ENDPOINTS, "web")["subsets"]
            assert [address["ip"] for address in subset["addresses"]] == ["10.0.0.1"]
            assert [address["ip"] for address in subset["notReadyAddresses"]] == ["10.0.0.2"]
            cluster.put(PODS, backend("b", "10.0.0.2"))
            cluster.remove(PODS, "a")
            await cluster.until(lambda: addresses(cluster) == {"10.0.0.2": True})

    idle.run(scenario())


def test_different_numbers_for_a_port_name_get_separate_slices() -> None:
    async def scenario() -> None:
        async with world(endpoints) as cluster:
            cluster.put(SERVICES, service())
            cluster.put(PODS, backend("a", "10.0.0.1", 8080))
            cluster.put(PODS, backend("b", "10.0.0.2", 9090))
            await cluster.until(lambda: len(addresses(cluster)) == 2)
            assert sorted(slice_["ports"][0]["port"] for slice_ in cluster.all(ENDPOINT_SLICES)) == [8080, 9090]

    idle.run(scenario())


def test_many_pods_fill_several_slices() -> None:
    async def scenario() -> None:
        async with world(endpoints) as cluster:
            cluster.put(SERVICES, service())
            for number in range(250):
                cluster.put(PODS, backend(f"p{number:03}", f"10.0.{number // 250}.{number % 250}"))
            await cluster.until(lambda: len(addresses(cluster)) == 250)
            assert sorted(len(slice_["endpoints"]) for slice_ in cluster.all(ENDPOINT_SLICES)) == [50, 100, 100]

    idle.run(scenario())


def test_endpoints_are_deleted_with_their_service() -> None:
    async def scenario() -> None:
        async with world(endpoints) as cluster:
            cluster.put(SERVICES, service())
            await cluster.until(lambda: cluster.names(ENDPOINTS) == ["web"])
            cluster.remove(SERVICES, "web")
            await cluster.until(lambda: cluster.names(ENDPOINTS) == [])

    idle.run(scenario())


def test_endpoints_carry_their_trigger_time() -> None:
    async def scenario() -> None:
        async with world(endpoints) as cluster:
            word = "endpoints.kubernetes.io/last-change-trigger-time"
            cluster.put(SERVICES, service())
            await cluster.until(lambda: cluster.names(ENDPOINTS) == ["web"])
            [slice_] = cluster.all(ENDPOINT_SLICES)
            made = cluster.get(SERVICES, "web")["metadata"]["creationTimestamp"]
            assert slice_["metadata"]["annotations"] == {word: made}
            tree = backend("a", "10.0.0.1")
            condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-05-06T07:08:09Z"}
            tree["status"]["conditions"] = [condition]
            cluster.put(PODS, tree)
            await cluster.until(lambda: "10.0.0.1" in addresses(cluster))
            [slice_] = cluster.all(ENDPOINT_SLICES)
            assert slice_["metadata"]["annotations"] == {word: "2026-05-06T07:08:09Z"}
            await cluster.until(lambda: bool(cluster.get(ENDPOINTS, "web").get("subsets")))
            assert cluster.get(ENDPOINTS, "web")["metadata"]["annotations"] == {word: "2026-05-06T07:08:09Z"}

    idle.run(scenario())


def test_a_service_without_a_selector_is_ignored() -> None:
    async def scenario() -> None:
        async with world(endpoints) as cluster:
            cluster.put(SERVICES, service(selector=None))
            cluster.put(PODS, backend("a", "10.0.0.1"))
            await cluster.settled()
            assert cluster.all(ENDPOINT_SLICES) == []

    idle.run(scenario())


def test_slices_and_endpoints_that_another_client_deletes_or_changes_are_restored() -> None:
    async def scenario() -> None:
        async with world(endpoints) as cluster:
            cluster.put(SERVICES, service())
            cluster.put(PODS, backend("a", "10.0.0.1"))
            await cluster.until(lambda: addresses(cluster) == {"10.0.0.1": True})
            await cluster.until(lambda: cluster.names(ENDPOINTS) == ["web"])
            await cluster.settled()
            cluster.remove(ENDPOINT_SLICES, cluster.names(ENDPOINT_SLICES)[0])
            await cluster.until(lambda: addresses(cluster) == {"10.0.0.1": True})
            cluster.change(ENDPOINT_SLICES, cluster.names(ENDPOINT_SLICES)[0], endpoints=[])
            await cluster.until(lambda: addresses(cluster) == {"10.0.0.1": True})
            cluster.remove(ENDPOINTS, "web")
            await cluster.until(lambda: cluster.names(ENDPOINTS) == ["web"])
            cluster.change(ENDPOINTS, "web", subsets=[])
            await cluster.until(lambda: cluster.get(ENDPOINTS, "web").get("subsets"))

    idle.run(scenario())
