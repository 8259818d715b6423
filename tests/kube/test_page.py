"""The page over a real kube-apiserver, with only a reader's permissions, and for a user of one namespace."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from allotment.api.clusters.source import ClusterOrigin
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.cluster.remote.version_negotiation import NegotiatingClient
from allotment.cluster.resources import SERVICE_ACCOUNTS, SLICES
from allotment.fleet.cluster import cluster_of
from allotment.fleet.description import parse_fleet
from allotment.lab import fleet
from allotment.model.trees import to_tree
from allotment.permissions.components import COMPONENTS
from allotment.permissions.roles import manifests, name_of
from allotment.tools.unread import NOT_SERVED
from allotment.watched.builder import ClusterIdentity
from allotment.watched.cluster import WatchedCluster
from allotment.web.options import WebOptions
from bench.real_kube import ApiServer
from tests.kube.releases import KUBE_RELEASES
from tests.web.two_teams import CLUSTER_KINDS, IN_USE, MANIFESTS, is_complete, leaks
from tests.web.visitors import PageServer, Visitors, apply, page_server, rules, wait_for

pytestmark = pytest.mark.every_release

HARDWARE = ("t4-4x-pcie:2",)
SCREENS = ("/map", "/pending", "/ask", "/objects", "/what-if", "/money", "/api/v1/free")


class Teams(NamedTuple):
    """A control plane in which two teams use devices."""

    kube: ApiServer
    visitors: Visitors

    def account(self, component: str) -> ClusterTarget:
        """The target of an account with a component's permissions."""
        wanted = COMPONENTS[component]
        apply(self.kube.target(), *manifests(wanted))

        async def token() -> str:
            async with self.kube.client() as client:
                request = {"spec": {"audiences": [], "expirationSeconds": 3600}}
                answer = await client.create(
                    SERVICE_ACCOUNTS, request, "kube-system", name=name_of(wanted), subresource="token"
                )
            return str(answer["status"]["token"])

        return self.kube.target(asyncio.run(token()))


def watched(target: ClusterTarget) -> WatchedCluster:
    return WatchedCluster.of_target(target, ClusterIdentity(ClusterOrigin("cluster"), "real", "cluster"))


@pytest.fixture(scope="module")
def teams(kube: ApiServer, release: str) -> Teams:
    features = KUBE_RELEASES[release].features

    async def publish() -> None:
        async with kube.client() as client:
            admin = NegotiatingClient(client)
            await fleet.publish(admin, HARDWARE, kube=features.kube, version="test", now="2026-01-01T00:00:00Z")
            for slice_ in cluster_of(parse_fleet(HARDWARE)).slices:
                await admin.create(SLICES, to_tree(slice_, SLICES.api_version, SLICES.kind))

    asyncio.run(publish())
    namespaces = ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{team}"}} for team in "ab")
    apply(kube.target(), *namespaces)
    for each in MANIFESTS:
        apply(kube.target(), each)
    return Teams(kube, Visitors(kube.target()))


@pytest.fixture(scope="module")
def page(teams: Teams) -> Iterator[tuple[PageServer, WatchedCluster]]:
    """The page as a component with its own permissions, and the visitors' rights."""
    cluster = watched(teams.account("web"))
    with page_server(cluster, WebOptions(in_cluster=True)) as server:
        wait_for(cluster, is_complete)
        yield server, cluster


def test_the_permissions_of_the_component_suffice(page: tuple[PageServer, WatchedCluster]) -> None:
    assert set(page[1].view().unread.values()) <= {NOT_SERVED}


def test_no_response_contains_a_name_of_another_namespace(
    teams: Teams, page: tuple[PageServer, WatchedCluster]
) -> None:
    server, cluster = page
    token = teams.visitors.add("one-namespace", rules(CLUSTER_KINDS), {"team-a": rules()})
    assert leaks(server, cluster.view(), token) == []
    found = server.send("/map", token).data
    assert found["totals"]["in-use"] == IN_USE


def test_unknown_tokens_are_rejected(page: tuple[PageServer, WatchedCluster]) -> None:
    reply = page[0].send("/map", "a.b.c")
    assert (reply.status, reply.data["detail"]) == (401, "the cluster does not accept this token, or it has expired")


def test_a_reader_sees_every_screen(teams: Teams) -> None:
    cluster = watched(teams.account("reader"))
    with page_server(cluster, WebOptions(token="t")) as server:
        view = wait_for(cluster, is_complete)
        assert set(view.unread.values()) <= {NOT_SERVED}
        for path in SCREENS:
            assert server.send(path, "t").status == 200
        page = server.send("/objects/pod/team-a/tiger-0", "t").data
        assert "FailedScheduling" in [entry["reason"] for entry in page["timeline"]]


def test_a_user_of_one_namespace_without_the_server_in_the_cluster(teams: Teams) -> None:
    token = teams.visitors.add("own-page", rules(CLUSTER_KINDS), {"team-a": rules()})
    cluster = watched(teams.kube.target(token)._replace(namespace="team-a"))
    with page_server(cluster, WebOptions(token="t")) as server:
        view = wait_for(cluster, lambda view: view.connected)
        assert view.unread["pods"] == "forbidden outside of namespace team-a"
        assert leaks_nothing(server)
        groups = server.send("/pending", "t").data["groups"]
        assert [name for group in groups for name in group["pods"]] == ["team-a/tiger-0"]
        problem = server.send("/map", "t")  # which devices are free depends on the claims of all namespaces
        assert (problem.status, "cannot answer without" in problem.data["detail"]) == (400, True)


def leaks_nothing(server: PageServer) -> bool:
    return not any(b"zebra" in server.send(path, "t").everything for path in SCREENS)
