"""The kind as an API server serves it."""

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


def test_a_domain_is_checked_and_filled_in_and_stays_as_it_is() -> None:
    async def told() -> None:
        served = await Served().started()
        said = await served.post(KINDS, compute_domain_crd())
        assert said.code == 201, said.body
        said = await served.post(DOMAINS, domain())
        assert said.code == 201, said.body
        assert said.body["spec"] == {
            "numNodes": 0,
            "channel": {"resourceClaimTemplate": {"name": "imex"}, "allocationMode": "Single"},
        }
        said = await served.patch(f"{DOMAINS}/d", {"spec": {"numNodes": 2}})
        assert said.code == 422
        assert "A computeDomain.spec is immutable" in said.body["message"]
        status = {"status": "Ready", "nodes": [{"name": "n1", "index": 0, "cliqueID": "", "status": "Ready"}]}
        said = await served.patch(f"{DOMAINS}/d/status", {"status": status})
        assert (said.code, said.body["status"]) == (200, status)

    idle.run(told())


def test_domains_that_make_no_sense_are_refused() -> None:
    async def told() -> None:
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

    idle.run(told())


def test_a_cluster_that_has_the_kind_is_left_alone() -> None:
    async def told() -> None:
        client = MemoryClient()
        await install(client)
        before = dict(client.objects)
        await install(client)
        assert client.objects == before
        assert len(before) == 1

    idle.run(told())
