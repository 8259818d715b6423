"""The bodies of access reviews, as clients get them."""

from __future__ import annotations

import asyncio

from tests.unit.apiserver.served import Served

AUTHORIZATION = "/apis/authorization.k8s.io/v1"


def test_a_rules_review_repeats_nothing_of_the_request() -> None:
    async def scenario() -> None:
        served = await Served().started()
        response = await served.post(f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": "shop"}})
        assert response.code == 201
        assert (response.body["metadata"], response.body["spec"]) == ({}, {})
        assert response.body["status"]["resourceRules"]

    asyncio.run(scenario())


def test_other_reviews_repeat_the_request_and_its_owner() -> None:
    async def scenario() -> None:
        served = await Served().started()
        spec = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
        response = await served.post(f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": spec})
        assert response.body["spec"] == spec
        assert [entry["operation"] for entry in response.body["metadata"]["managedFields"]] == ["Update"]

    asyncio.run(scenario())
