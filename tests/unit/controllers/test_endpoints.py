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


def addresses(here: World) -> dict[str, bool]:
    """Every address with whether it is ready."""
    return {
        endpoint["addresses"][0]: endpoint["conditions"]["ready"]
        for one in here.all(ENDPOINT_SLICES)
        for endpoint in one["endpoints"] or ()
    }


def test_endpoints_follow_pods_as_they_start_become_ready_and_end() -> None:
    async def story() -> None:
        async with world(endpoints) as here:
            here.put(SERVICES, service())
            await here.until(lambda: len(here.all(ENDPOINT_SLICES)) == 1)
            here.put(PODS, backend("a", "10.0.0.1"))
            here.put(PODS, backend("b", "10.0.0.2", ready=False))
            here.put(PODS, backend("other", "10.0.0.3", labels={"app": "other"}))
            await here.until(lambda: addresses(here) == {"10.0.0.1": True, "10.0.0.2": False})
            [one] = here.all(ENDPOINT_SLICES)
            assert one["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
            assert one["ports"] == [{"name": "http", "protocol": "TCP", "port": 8080}]
            assert one["endpoints"][0]["targetRef"]["name"] == "a"
            [subset] = here.get(ENDPOINTS, "web")["subsets"]
            assert [address["ip"] for address in subset["addresses"]] == ["10.0.0.1"]
            assert [address["ip"] for address in subset["notReadyAddresses"]] == ["10.0.0.2"]
            here.put(PODS, backend("b", "10.0.0.2"))
            here.remove(PODS, "a")
            await here.until(lambda: addresses(here) == {"10.0.0.2": True})

    idle.run(story())


def test_different_numbers_for_a_port_name_get_separate_slices() -> None:
    async def story() -> None:
        async with world(endpoints) as here:
            here.put(SERVICES, service())
            here.put(PODS, backend("a", "10.0.0.1", 8080))
            here.put(PODS, backend("b", "10.0.0.2", 9090))
            await here.until(lambda: len(addresses(here)) == 2)
            assert sorted(one["ports"][0]["port"] for one in here.all(ENDPOINT_SLICES)) == [8080, 9090]

    idle.run(story())


def test_many_pods_fill_several_slices() -> None:
    async def story() -> None:
        async with world(endpoints) as here:
            here.put(SERVICES, service())
            for number in range(250):
                here.put(PODS, backend(f"p{number:03}", f"10.0.{number // 250}.{number % 250}"))
            await here.until(lambda: len(addresses(here)) == 250)
            assert sorted(len(one["endpoints"]) for one in here.all(ENDPOINT_SLICES)) == [50, 100, 100]

    idle.run(story())


def test_endpoints_are_deleted_with_their_service() -> None:
    async def story() -> None:
        async with world(endpoints) as here:
            here.put(SERVICES, service())
            await here.until(lambda: here.names(ENDPOINTS) == ["web"])
            here.remove(SERVICES, "web")
            await here.until(lambda: here.names(ENDPOINTS) == [])

    idle.run(story())


def test_endpoints_carry_their_trigger_time() -> None:
    async def story() -> None:
        async with world(endpoints) as here:
            word = "endpoints.kubernetes.io/last-change-trigger-time"
            here.put(SERVICES, service())
            await here.until(lambda: here.names(ENDPOINTS) == ["web"])
            [one] = here.all(ENDPOINT_SLICES)
            made = here.get(SERVICES, "web")["metadata"]["creationTimestamp"]
            assert one["metadata"]["annotations"] == {word: made}
            tree = backend("a", "10.0.0.1")
            condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-05-06T07:08:09Z"}
            tree["status"]["conditions"] = [condition]
            here.put(PODS, tree)
            await here.until(lambda: "10.0.0.1" in addresses(here))
            [one] = here.all(ENDPOINT_SLICES)
            assert one["metadata"]["annotations"] == {word: "2026-05-06T07:08:09Z"}
            await here.until(lambda: bool(here.get(ENDPOINTS, "web").get("subsets")))
            assert here.get(ENDPOINTS, "web")["metadata"]["annotations"] == {word: "2026-05-06T07:08:09Z"}

    idle.run(story())


def test_a_service_without_a_selector_is_ignored() -> None:
    async def story() -> None:
        async with world(endpoints) as here:
            here.put(SERVICES, service(selector=None))
            here.put(PODS, backend("a", "10.0.0.1"))
            await here.settled()
            assert here.all(ENDPOINT_SLICES) == []

    idle.run(story())
