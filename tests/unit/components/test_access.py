"""Metrics are served to clients that the cluster authenticates and authorizes; reviews are cached."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from allotment.cluster.client import Resource
from allotment.cluster.errors import StatusError, Unreachable
from allotment.components.diagnostic_endpoints import MetricsAuthorizer
from allotment.model.trees import Tree
from tests.unit.cluster.memory import MemoryClient


class Cluster(MemoryClient):
    """Authenticates two users by token and allows one of them to read metrics."""

    users = {"of-prometheus": "prometheus", "of-anybody": "anybody"}

    def __init__(self) -> None:
        super().__init__()
        self.reviews: list[Tree] = []
        self.broken: Exception | None = None

    async def create(self, resource: Resource, tree: Tree, namespace: str = "", **more: Any) -> Tree:
        self.reviews.append(tree)
        await asyncio.sleep(0)
        if self.broken is not None:
            raise self.broken
        spec = tree["spec"]
        if resource.kind == "TokenReview":
            name = self.users.get(spec["token"])
            return {"status": {"authenticated": True, "user": {"username": name, "groups": ["a"]}} if name else {}}
        return {"status": {"allowed": spec["user"] == "prometheus"}}


@pytest.mark.parametrize(
    ("token", "verdict"), [("of-prometheus", "allowed"), ("of-anybody", "forbidden"), ("made-up", "unknown")]
)
def test_access_is_decided_by_the_api_server(token: str, verdict: str) -> None:
    cluster = Cluster()
    assert asyncio.run(MetricsAuthorizer(cluster).review(token)) == verdict


def test_token_and_access_reviews_match_kubernetes() -> None:
    cluster = Cluster()
    asyncio.run(MetricsAuthorizer(cluster).review("of-prometheus"))
    assert [tree["kind"] for tree in cluster.reviews] == ["TokenReview", "SubjectAccessReview"]
    spec = cluster.reviews[1]["spec"]
    assert (spec["user"], spec["groups"]) == ("prometheus", ["a"])
    assert spec["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}


def test_reviews_are_cached_briefly() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        access = MetricsAuthorizer(cluster, kept=3600)
        assert {await access.review("of-prometheus") for _ in range(10)} == {"allowed"}
        assert len(cluster.reviews) == 2
        forgetful = MetricsAuthorizer(cluster, kept=0)
        assert await forgetful.review("of-prometheus") == "allowed"
        cluster.users = {}
        assert await forgetful.review("of-prometheus") == "unknown"

    asyncio.run(scenario())


@pytest.mark.parametrize("broken", [Unreachable("no route"), StatusError({"code": 403, "message": "may not review"})])
def test_failed_reviews_deny_access_and_are_not_cached(broken: Exception) -> None:
    async def scenario() -> None:
        cluster = Cluster()
        access = MetricsAuthorizer(cluster)
        cluster.broken = broken
        assert await access.review("of-prometheus") == "unsure"
        cluster.broken = None
        assert await access.review("of-prometheus") == "allowed"

    asyncio.run(scenario())


def test_tokens_are_not_stored() -> None:
    async def scenario() -> MetricsAuthorizer:
        access = MetricsAuthorizer(Cluster())
        await access.review("of-prometheus")
        return access

    assert "of-prometheus" not in repr(vars(asyncio.run(scenario())))
