"""The CustomResourceDefinition of ComputeDomains on an API server."""

from typing import Any

from allotment.drivers.nvidia.compute_domain.crd import compute_domain_crd, install
from allotment.drivers.nvidia.compute_domain.names import COMPUTE_DOMAINS
from tests.unit.apiserver.served import Served
from tests.unit.cluster import idle
from tests.unit.cluster.memory import MemoryClient

KINDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DOMAINS = COMPUTE_DOMAINS.path("shop")


def domain(**spec: Any) -> dict[str, Any]:
    channel = {"resourceClaimTemplate": {"name": "imex"}}
    return {
        "apiVersion": COMPUTE_DOMAINS.api_version,
        "kind": COMPUTE_DOMAINS.kind,
        "metadata": {"name": "d"},
        "spec": {"channel": channel, **spec},
    }


def test_a_domain_is_validated_defaulted_and_immutable() -> None:
    async def main() -> None:
        served = await Served().started()
        response = await served.post(KINDS, compute_domain_crd())
        assert response.code == 201, response.body
        response = await served.post(DOMAINS, domain())
        assert response.code == 201, response.body
        assert response.body["spec"] == {
            "numNodes": 0,
            "channel": {"resourceClaimTemplate": {"name": "imex"}, "allocationMode": "Single"},
        }
        response = await served.patch(f"{DOMAINS}/d", {"spec": {"numNodes": 2}})
        assert response.code == 422
        assert "A computeDomain.spec is immutable" in response.body["message"]
        status = {"status": "Ready", "nodes": [{"name": "n1", "index": 0, "cliqueID": "", "status": "Ready"}]}
        response = await served.patch(f"{DOMAINS}/d/status", {"status": status})
        assert (response.code, response.body["status"]) == (200, status)

    idle.run(main())


def test_invalid_domains_are_rejected() -> None:
    async def main() -> None:
        served = await Served().started()
        await served.post(KINDS, compute_domain_crd())
        nameless = {"resourceClaimTemplate": {"name": ""}}
        everything = {"resourceClaimTemplate": {"name": "imex"}, "allocationMode": "Everything"}
        specs: list[dict[str, Any]] = [
            {"numNodes": -1},
            {"channel": {}},
            {"channel": nameless},
            {"channel": everything},
        ]
        for spec in specs:
            assert (await served.post(DOMAINS, domain(**spec))).code == 422, spec

    idle.run(main())


def test_an_existing_crd_is_not_changed() -> None:
    async def main() -> None:
        client = MemoryClient()
        await install(client)
        before = dict(client.objects)
        await install(client)
        assert client.objects == before
        assert len(before) == 1

    idle.run(main())
