"""Filter reasons and scores of nodes for a pod."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.node_fit.filters import run_filters
from allotment.node_fit.filters.inter_pod_affinity import inter_pod_affinity, inter_pod_affinity_scores
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.filters.topology_spread import topology_spread, topology_spread_scores
from allotment.node_fit.nodes import NodeCache
from tests.unit.scheduler.machines import assigned_pod, nodes_in_zones, nodes_named, requirements_of


def _texts(refusal: Refusal | None) -> tuple[str, ...]:
    return refusal.texts if refusal is not None else ()


def _refusal_texts(pod: dict[str, Any], node_fields: dict[str, Any]) -> tuple[str, ...]:
    (node,) = nodes_named("a", **node_fields)
    return _texts(run_filters(requirements_of(**pod), node))


@pytest.mark.parametrize(
    ("pod", "node", "texts"),
    [
        ({}, {}, ()),
        ({}, {"unschedulable": True}, ("node(s) were unschedulable",)),
        ({}, {"taints": [{"key": "k", "effect": "NoSchedule"}]}, ("node(s) had untolerated taint(s)",)),
        ({}, {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}, ()),
        (
            {"tolerations": [{"key": "k", "operator": "Exists"}]},
            {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]},
            (),
        ),
        (
            {"tolerations": [{"key": "k", "operator": "Gt", "value": "5"}]},
            {"taints": [{"key": "k", "value": "7", "effect": "NoSchedule"}]},
            (),
        ),
        ({"nodeSelector": {"x": "y"}}, {}, ("node(s) didn't match Pod's node affinity/selector",)),
        ({"nodeSelector": {"x": "y"}}, {"labels": {"x": "y"}}, ()),
        ({"requests": {"cpu": "9"}}, {}, ("Insufficient cpu",)),
        ({"requests": {"memory": "64Gi", "cpu": "9"}}, {}, ("Insufficient cpu", "Insufficient memory")),
        ({"requests": {"example.com/gpu": "1"}}, {}, ("Insufficient example.com/gpu",)),
        ({}, {"pods": "0"}, ("Too many pods",)),
    ],
)
def test_filter_reasons_of_a_single_node(pod: dict[str, Any], node: dict[str, Any], texts: tuple[str, ...]) -> None:
    assert _refusal_texts(pod, node) == texts


def test_preemption_may_help_only_if_the_allocatable_resources_suffice() -> None:
    nodes = nodes_named("a")
    nodes.assign_pod(assigned_pod("there", requests={"cpu": "7"}), "a")
    (node,) = nodes
    fits_empty, too_big = requirements_of(requests={"cpu": "4"}), requirements_of(requests={"cpu": "9"})
    assert [_may_help(run_filters(d, node)) for d in (fits_empty, too_big)] == [True, False]


def _may_help(refusal: Refusal | None) -> bool:
    assert refusal is not None
    return refusal.preemption_may_help


def test_a_host_port_is_in_use_until_its_pod_is_removed() -> None:
    nodes = nodes_named("a")
    ports = [{"containerPort": 80, "hostPort": 80}]
    nodes.assign_pod(assigned_pod("first", ports=ports), "a")
    (node,) = nodes
    assert _texts(run_filters(requirements_of(ports=ports), node)) == (
        "node(s) didn't have free ports for the requested pod ports",
    )
    nodes.remove_pod("first")
    assert run_filters(requirements_of(ports=ports), node) is None


# --- topology spread ------------------------------------------------------------------------------------------


def _constraint(skew: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "maxSkew": skew,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        **more,
    }


def _nodes_within_skew(nodes: NodeCache, *constraints: dict[str, Any], **pod: Any) -> list[str]:
    web = requirements_of(topologySpreadConstraints=list(constraints), **pod)
    refused = topology_spread(web, "ns", {"app": "web"}, nodes)
    return [m.name for m in nodes if m.index not in refused]


def test_spread_keeps_zones_even() -> None:
    nodes = nodes_in_zones(a="1", b="1", c="2")
    assert _nodes_within_skew(nodes, _constraint()) == ["a", "b", "c"]
    nodes.assign_pod(assigned_pod("w1", labels={"app": "web"}), "a")
    assert _nodes_within_skew(nodes, _constraint()) == ["c"]
    assert _nodes_within_skew(nodes, _constraint(skew=2)) == ["a", "b", "c"]
    nodes.assign_pod(assigned_pod("w2", labels={"app": "web"}), "c")
    assert _nodes_within_skew(nodes, _constraint()) == ["a", "b", "c"]
    nodes.remove_pod("w2")
    assert _nodes_within_skew(nodes, _constraint()) == ["c"]


def test_spread_ignores_other_namespaces_and_terminating_pods() -> None:
    nodes = nodes_in_zones(a="1", b="2")
    nodes.assign_pod(assigned_pod("w1", labels={"app": "web"})._replace(namespace="other"), "a")
    nodes.assign_pod(assigned_pod("w2", labels={"app": "web"})._replace(terminating=True), "a")
    assert _nodes_within_skew(nodes, _constraint()) == ["a", "b"]


def test_spread_ignores_zones_that_the_node_selector_excludes() -> None:
    nodes = nodes_in_zones(a="1", b="2")
    nodes.assign_pod(assigned_pod("w1", labels={"app": "web"}), "a")
    only_a = {"nodeSelector": {"kubernetes.io/hostname": "a"}}
    assert _nodes_within_skew(nodes, _constraint(), **only_a) == ["a", "b"]
    assert _nodes_within_skew(nodes, _constraint(nodeAffinityPolicy="Ignore"), **only_a) == ["b"]


def test_missing_min_domains_count_as_empty_domains() -> None:
    nodes = nodes_in_zones(a="1")
    nodes.assign_pod(assigned_pod("w1", labels={"app": "web"}), "a")
    assert _nodes_within_skew(nodes, _constraint(minDomains=2)) == []


def test_a_node_without_the_topology_label_gets_its_own_reason() -> None:
    nodes = nodes_named("a")
    refused = topology_spread(requirements_of(topologySpreadConstraints=[_constraint()]), "ns", {"app": "web"}, nodes)
    assert _texts(refused[0]) == ("node(s) didn't match pod topology spread constraints (missing required label)",)


def test_soft_spread_scores_empty_zones_higher() -> None:
    nodes = nodes_in_zones(a="1", b="2")
    nodes.assign_pod(assigned_pod("w1", labels={"app": "web"}), "a")
    requirements = requirements_of(topologySpreadConstraints=[_constraint(whenUnsatisfiable="ScheduleAnyway")])
    assert topology_spread(requirements, "ns", {"app": "web"}, nodes) == {}
    scores = topology_spread_scores(requirements, "ns", {"app": "web"}, nodes, iter(nodes))
    assert scores[1] > scores[0]


# --- pod affinity ------------------------------------------------------------------------------------------


def _affinity_to(kind: str, key: str = "zone", app: str = "web", **more: Any) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _allowed_nodes(
    nodes: NodeCache, name: str = "p", namespaces: dict[str, dict[str, str]] | None = None, **pod: Any
) -> list[str]:
    refused = inter_pod_affinity(assigned_pod(name, **pod), nodes, namespaces or {})
    return [m.name for m in nodes if m.index not in refused]


def test_affinity_allows_only_the_zone_of_matching_pods() -> None:
    nodes = nodes_in_zones(a="1", b="1", c="2")
    nodes.assign_pod(assigned_pod("w", labels={"app": "web"}), "a")
    assert _allowed_nodes(nodes, affinity=_affinity_to("podAffinity")) == ["a", "b"]


def test_affinity_without_matching_pods_allows_only_a_self_matching_pod() -> None:
    nodes = nodes_in_zones(a="1", b="2")
    together = _affinity_to("podAffinity")
    assert _allowed_nodes(nodes, labels={"app": "web"}, affinity=together) == ["a", "b"]
    assert _allowed_nodes(nodes, labels={"app": "db"}, affinity=together) == []


def test_anti_affinity_applies_to_new_and_existing_pods() -> None:
    nodes = nodes_in_zones(a="1", b="1", c="2")
    apart = _affinity_to("podAntiAffinity")
    nodes.assign_pod(assigned_pod("w", labels={"app": "web"}, affinity=apart), "a")
    assert _allowed_nodes(nodes, labels={"app": "web"}, affinity=apart) == ["c"]
    assert _allowed_nodes(nodes, labels={"app": "web"}) == ["c"]
    assert _allowed_nodes(nodes, labels={"app": "db"}) == ["a", "b", "c"]


def test_terms_select_the_pods_own_namespace_by_default() -> None:
    nodes = nodes_in_zones(a="1", b="2")
    nodes.assign_pod(assigned_pod("w", labels={"app": "web"})._replace(namespace="other"), "a")
    assert _allowed_nodes(nodes, affinity=_affinity_to("podAntiAffinity")) == ["a", "b"]
    assert _allowed_nodes(nodes, affinity=_affinity_to("podAntiAffinity", namespaces=["other"])) == ["b"]
    assert _allowed_nodes(nodes, affinity=_affinity_to("podAntiAffinity", namespaceSelector={})) == ["b"]
    team = {"matchLabels": {"team": "x"}}
    by_label = _affinity_to("podAntiAffinity", namespaceSelector=team)
    assert _allowed_nodes(nodes, namespaces={"other": {"team": "x"}}, affinity=by_label) == ["b"]
    assert _allowed_nodes(nodes, namespaces={"other": {"team": "y"}}, affinity=by_label) == ["a", "b"]


def test_preferred_affinity_raises_and_anti_affinity_lowers_the_score() -> None:
    nodes = nodes_in_zones(a="1", b="2")
    nodes.assign_pod(assigned_pod("w", labels={"app": "web"}), "a")
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": term}]}
    near = inter_pod_affinity_scores(assigned_pod("p", affinity={"podAffinity": preferred}), nodes, {}, nodes)
    far = inter_pod_affinity_scores(assigned_pod("p", affinity={"podAntiAffinity": preferred}), nodes, {}, nodes)
    assert (near, far) == ({0: 100, 1: 0}, {0: 0, 1: 100})
