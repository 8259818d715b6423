"""Endpoints that users write for Services without a selector are mirrored as EndpointSlices."""

from __future__ import annotations

from typing import Any

from allotment.cluster.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from allotment.controllers.endpoint_mirroring import endpoint_mirroring
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.controllers.world import World, world

SERVICE: Tree = {"metadata": {"name": "db"}, "spec": {"ports": [{"port": 5432}]}}


def endpoints(*subsets: Tree, **metadata: Any) -> Tree:
    return {"metadata": {"name": "db", **metadata}, "subsets": list(subsets)}


def subset(*addresses: str, port: int = 5432, **more: Any) -> Tree:
    return {"addresses": [{"ip": address} for address in addresses], "ports": [{"name": "a", "port": port}], **more}


def mirrored(cluster: World) -> list[tuple[str, int, list[tuple[str, bool]]]]:
    """Family, port and addresses of each slice."""
    return sorted(
        (
            tree["addressType"],
            tree["ports"][0]["port"],
            [(endpoint["addresses"][0], endpoint["conditions"]["ready"]) for endpoint in tree["endpoints"]],
        )
        for tree in cluster.all(ENDPOINT_SLICES)
    )


def test_slices_follow_the_endpoints() -> None:
    async def scenario() -> None:
        async with world(endpoint_mirroring) as cluster:
            cluster.put(SERVICES, SERVICE)
            annotations = {"a.b/c": "d", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
            first = subset("10.1.2.3", "2001:db8::1", notReadyAddresses=[{"ip": "10.1.2.4"}])
            cluster.put(ENDPOINTS, endpoints(first, subset("10.1.2.9"), labels={"x": "y"}, annotations=annotations))
            expected = [
                ("IPv4", 5432, [("10.1.2.3", True), ("10.1.2.4", False), ("10.1.2.9", True)]),
                ("IPv6", 5432, [("2001:db8::1", True)]),
            ]
            await cluster.until(lambda: mirrored(cluster) == expected)
            metadata = cluster.all(ENDPOINT_SLICES)[0]["metadata"]
            assert metadata["labels"] == {
                "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
                "kubernetes.io/service-name": "db",
                "x": "y",
            }
            assert metadata["annotations"] == {"a.b/c": "d"}
            assert metadata["ownerReferences"][0]["kind"] == "Endpoints"
            cluster.put(ENDPOINTS, endpoints(subset("10.1.2.5", port=81)))
            await cluster.until(lambda: mirrored(cluster) == [("IPv4", 81, [("10.1.2.5", True)])])
            cluster.remove(ENDPOINT_SLICES, cluster.names(ENDPOINT_SLICES)[0])
            await cluster.until(lambda: mirrored(cluster) == [("IPv4", 81, [("10.1.2.5", True)])])
            cluster.remove(ENDPOINTS, "db")
            await cluster.until(lambda: mirrored(cluster) == [])

    idle.run(scenario())


def test_endpoints_of_other_services_are_not_mirrored() -> None:
    async def scenario() -> None:
        async with world(endpoint_mirroring) as cluster:
            cluster.put(ENDPOINTS, endpoints(subset("10.1.2.3")))  # without a Service
            await cluster.settled()
            assert mirrored(cluster) == []
            cluster.put(SERVICES, {**SERVICE, "spec": {**SERVICE["spec"], "selector": {"app": "db"}}})
            await cluster.settled()
            assert mirrored(cluster) == []
            cluster.put(SERVICES, SERVICE)
            await cluster.until(lambda: mirrored(cluster))
            cluster.put(
                ENDPOINTS, endpoints(subset("10.1.2.3"), labels={"endpointslice.kubernetes.io/skip-mirror": "true"})
            )
            await cluster.until(lambda: mirrored(cluster) == [])

    idle.run(scenario())
