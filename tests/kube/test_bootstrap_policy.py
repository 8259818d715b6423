"""A lab starts with the roles and bindings of kube-apiserver, and its controller aggregates the same rules."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from allotment.apiserver.access.default_roles import default_bindings, default_roles
from allotment.cluster.resources import CLUSTER_ROLES
from allotment.lab.control_plane import running
from allotment.lab.settings import Settings
from allotment.model.features import Features
from allotment.model.trees import Tree
from bench import real_kube
from tests.polling import until

pytestmark = pytest.mark.every_release

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_AGGREGATED = ("admin", "edit", "view")


@pytest.fixture(scope="module")
def server(paths: dict[str, str]) -> Iterator[real_kube.ApiServer]:
    with real_kube.plane(
        paths, controllers="clusterrole-aggregation-controller,serviceaccount-controller", scheduler=False
    ) as running:
        yield running


def _essentials(tree: Tree) -> Tree:
    metadata = {name: tree["metadata"].get(name) for name in ("name", "namespace", "labels", "annotations")}
    lists = {name: tree.get(name) or [] for name in ("rules", "subjects")}
    return {**metadata, **lists, **{name: tree.get(name) for name in ("roleRef", "aggregationRule")}}


def _by_name(trees: list[Tree]) -> dict[tuple[str, str], Tree]:
    return {(tree["metadata"].get("namespace", ""), tree["metadata"]["name"]): _essentials(tree) for tree in trees}


def test_the_same_roles_and_bindings_exist(server: real_kube.ApiServer, release: str) -> None:
    features = Features(release)
    written = [*default_roles(features), *default_bindings(features)]
    for kind in ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"):
        expected = _by_name(server.send_request("GET", f"{_RBAC}/{kind.lower()}s")[1]["items"])
        if kind == "ClusterRole":
            for name in _AGGREGATED:  # what the controller writes is the subject of the next test
                expected["", name]["rules"] = []
        assert _by_name([tree for tree in written if tree["kind"] == kind]) == expected


def test_the_same_rules_are_aggregated(server: real_kube.ApiServer, release: str) -> None:
    expected = {name: server.send_request("GET", f"{_RBAC}/clusterroles/{name}")[1]["rules"] for name in _AGGREGATED}

    async def scenario() -> None:
        async with running(Settings(features=Features(release), fleet=(), tls=False)) as plane:
            client = plane.client()

            async def are_equal() -> bool:
                found = {name: (await client.get(CLUSTER_ROLES, name)).get("rules") for name in _AGGREGATED}
                return found == expected

            await until(are_equal)

    asyncio.run(scenario())
