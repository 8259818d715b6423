"""Metrics are for those whom the cluster knows and lets; it is not asked the same again and again."""

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
    """Knows two users by their tokens, and lets one of them read metrics."""

    users = {"of-prometheus": "prometheus", "of-anybody": "anybody"}

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Tree] = []
        self.broken: Exception | None = None

    async def create(self, resource: Resource, tree: Tree, namespace: str = "", **more: Any) -> Tree:
        self.asked.append(tree)
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
def test_the_cluster_decides(token: str, verdict: str) -> None:
    cluster = Cluster()
    assert asyncio.run(MetricsAuthorizer(cluster).review(token)) == verdict


def test_who_it_is_and_what_is_wanted_is_asked_as_kubernetes_does() -> None:
    cluster = Cluster()
    asyncio.run(MetricsAuthorizer(cluster).review("of-prometheus"))
    assert [tree["kind"] for tree in cluster.asked] == ["TokenReview", "SubjectAccessReview"]
    spec = cluster.asked[1]["spec"]
    assert (spec["user"], spec["groups"]) == ("prometheus", ["a"])
    assert spec["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}


def test_an_answer_is_kept_for_a_moment() -> None:
    async def story() -> None:
        cluster = Cluster()
        access = MetricsAuthorizer(cluster, kept=3600)
        assert {await access.review("of-prometheus") for _ in range(10)} == {"allowed"}
        assert len(cluster.asked) == 2
        forgetful = MetricsAuthorizer(cluster, kept=0)
        assert await forgetful.review("of-prometheus") == "allowed"
        cluster.users = {}
        assert await forgetful.review("of-prometheus") == "unknown"

    asyncio.run(story())


@pytest.mark.parametrize("broken", [Unreachable("no route"), StatusError({"code": 403, "message": "may not review"})])
def test_a_cluster_that_does_not_say_lets_nobody_in_and_is_asked_again(broken: Exception) -> None:
    async def story() -> None:
        cluster = Cluster()
        access = MetricsAuthorizer(cluster)
        cluster.broken = broken
        assert await access.review("of-prometheus") == "unsure"
        cluster.broken = None
        assert await access.review("of-prometheus") == "allowed"

    asyncio.run(story())


def test_tokens_are_not_kept() -> None:
    async def story() -> MetricsAuthorizer:
        access = MetricsAuthorizer(Cluster())
        await access.review("of-prometheus")
        return access

    assert "of-prometheus" not in repr(vars(asyncio.run(story())))
