"""Which representations a client can get."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.apiserver.served import PODS, Served, pod

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
TOKENS = "/api/v1/namespaces/shop/serviceaccounts/default/token"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (REVIEWS, {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}),
        (TOKENS, {"spec": {}}),
        (f"{PODS}/p/eviction", {"metadata": {"name": "p"}}),
    ],
)
def test_objects_that_are_not_stored_have_no_table(path: str, body: dict[str, object]) -> None:
    async def scenario() -> None:
        served = await Served().started()
        assert (await served.post(PODS, pod("p"))).code == 201
        response = await served.post(path, body, accept=TABLE)
        assert response.code == 406
        assert response.message == (
            "only the following media types are accepted: application/json, application/yaml, "
            "application/vnd.kubernetes.protobuf"
        )
        assert (await served.post(path, body, accept=f"{TABLE},application/json")).code == 201

    asyncio.run(scenario())
