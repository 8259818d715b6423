"""Discovery of served resources, aggregated and per group, and the names of kinds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.discovery import Discovery, discover
from allotment.model.trees import Tree


class Answers:
    """A cluster with prepared responses by path."""

    def __init__(self, answers: Mapping[str, Tree | Exception]) -> None:
        self._answers = answers

    async def read(self, path: str, query: Sequence[tuple[str, str]] = (), accept: str = "application/json") -> Tree:
        answer = self._answers[path]
        if isinstance(answer, Exception):
            raise answer
        return answer


def aggregated(*items: tuple[str, Sequence[tuple[str, Sequence[Tree]]]]) -> Tree:
    return {
        "kind": "APIGroupDiscoveryList",
        "items": [
            {
                "metadata": {"name": group} if group else {},
                "versions": [{"version": version, "resources": list(kinds)} for version, kinds in versions],
            }
            for group, versions in items
        ],
    }


def kind(plural: str, name: str, *short: str, scope: str = "Namespaced", categories: Sequence[str] = ()) -> Tree:
    return {
        "resource": plural, "responseKind": {"kind": name}, "scope": scope, "singularResource": name.lower(),
        "shortNames": list(short), "categories": list(categories), "verbs": ["get", "list"],
    }  # fmt: skip


@pytest.fixture
def found() -> Discovery:
    core = aggregated(("", [("v1", [kind("pods", "Pod", "po", categories=["all"]), kind("events", "Event", "ev")])]))
    groups = aggregated(
        ("events.k8s.io", [("v1", [kind("events", "Event", "ev")])]),
        ("resource.k8s.io", [("v1", [kind("deviceclasses", "DeviceClass", scope="Cluster")]),
                             ("v1beta1", [kind("deviceclasses", "DeviceClass", scope="Cluster")])]),
        ("apps", [("v1", [kind("deployments", "Deployment", "deploy", categories=["all"])])]),
    )  # fmt: skip
    return asyncio.run(discover(Answers({"/api": core, "/apis": groups})))


@pytest.mark.parametrize(
    ("word", "path"),
    [
        ("po", "/api/v1/pods"),
        ("Pod", "/api/v1/pods"),
        ("events", "/api/v1/events"),
        ("events.events.k8s.io", "/apis/events.k8s.io/v1/events"),
        ("ev.v1.events.k8s.io", "/apis/events.k8s.io/v1/events"),
        ("deviceclass", "/apis/resource.k8s.io/v1/deviceclasses"),
        ("deviceclasses.v1beta1.resource.k8s.io", "/apis/resource.k8s.io/v1beta1/deviceclasses"),
        ("deployments.app", "/apis/apps/v1/deployments"),
    ],
)
def test_a_word_names_a_resource(found: Discovery, word: str, path: str) -> None:
    served = found.by_word(word)
    assert served is not None
    assert served.resource.path() == path


def test_unknown_words_name_no_resource(found: Discovery) -> None:
    assert found.by_word("pdo") is None
    assert found.by_word("pods.apps") is None
    assert found.by_type("v1", "Deployment") is None
    assert found.in_category("none") == ()


def test_categories_contain_each_resource_once(found: Discovery) -> None:
    assert [served.plural_label for served in found.in_category("all")] == ["pods", "deployments.apps"]
    assert found.by_type("apps/v1", "Deployment") == found.by_word("deploy")
    assert [served.label for served in found.versions_of("resource.k8s.io", "deviceclasses")] == [
        "deviceclass.resource.k8s.io"
    ] * 2


def test_servers_without_aggregated_discovery_are_queried_group_by_group() -> None:
    def listed(*kinds: tuple[str, str, bool]) -> Tree:
        return {"resources": [{"name": name, "kind": k, "namespaced": n, "verbs": ["list"]} for name, k, n in kinds]}

    gone = StatusError({"code": 503, "reason": "ServiceUnavailable", "message": "its server does not answer"})
    answers: dict[str, Tree | Exception] = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {
            "kind": "APIGroupList",
            "groups": [
                {"name": "apps", "versions": [{"version": "v1beta1"}, {"version": "v1"}],
                 "preferredVersion": {"version": "v1"}},
                {"name": "metrics.k8s.io", "versions": [{"version": "v1"}]},
            ],
        },
        "/api/v1": listed(("pods", "Pod", True), ("pods/log", "Pod", True), ("nodes", "Node", False)),
        "/apis/apps/v1": listed(("deployments", "Deployment", True)),
        "/apis/apps/v1beta1": listed(("deployments", "Deployment", True)),
        "/apis/metrics.k8s.io/v1": gone,
    }  # fmt: skip
    found = asyncio.run(discover(Answers(answers)))
    assert [served.resource.path() for served in found.served] == [
        "/api/v1/pods", "/api/v1/nodes", "/apis/apps/v1/deployments", "/apis/apps/v1beta1/deployments",
    ]  # fmt: skip
