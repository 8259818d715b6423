"""Which nodes a pod may use, one filter after the other."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.node_fit.filters import run_filters
from allotment.node_fit.filters.inter_pod_affinity import inter_pod_affinity_scores, inter_pod_affinity
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.filters.topology_spread import topology_spread, topology_spread_scores
from allotment.node_fit.nodes import NodeCache
from tests.unit.scheduler.machines import requirements_of, nodes_in_zones, nodes_named, assigned_pod


def _texts(refusal: Refusal | None) -> tuple[str, ...]:
    return refusal.texts if refusal is not None else ()


def _refusal_texts(pod: dict[str, Any], node: dict[str, Any]) -> tuple[str, ...]:
    (machine,) = nodes_named("a", **node)
    return _texts(run_filters(requirements_of(**pod), machine))


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
def test_filters_of_one_node(pod: dict[str, Any], node: dict[str, Any], texts: tuple[str, ...]) -> None:
    assert _refusal_texts(pod, node) == texts


def test_preemption_may_help_only_where_the_whole_node_would_be_enough() -> None:
    machines = nodes_named("a")
    machines.assign_pod(assigned_pod("there", requests={"cpu": "7"}), "a")
    (machine,) = machines
    fits_empty, too_big = requirements_of(requests={"cpu": "4"}), requirements_of(requests={"cpu": "9"})
    assert [_may_help(run_filters(d, machine)) for d in (fits_empty, too_big)] == [True, False]


def _may_help(refusal: Refusal | None) -> bool:
    assert refusal is not None
    return refusal.preemption_may_help


def test_host_port_is_taken_until_its_pod_goes() -> None:
    machines = nodes_named("a")
    ports = [{"containerPort": 80, "hostPort": 80}]
    machines.assign_pod(assigned_pod("first", ports=ports), "a")
    (machine,) = machines
    assert _texts(run_filters(requirements_of(ports=ports), machine)) == (
        "node(s) didn't have free ports for the requested pod ports",
    )
    machines.remove_pod("first")
    assert run_filters(requirements_of(ports=ports), machine) is None


# --- spread --------------------------------------------------------------------------------------------------------


def _constraint(skew: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "maxSkew": skew,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        **more,
    }


def _spread(machines: NodeCache, *constraints: dict[str, Any], **pod: Any) -> list[str]:
    web = requirements_of(topologySpreadConstraints=list(constraints), **pod)
    refused = topology_spread(web, "ns", {"app": "web"}, machines)
    return [m.name for m in machines if m.index not in refused]


def test_spread_keeps_zones_even() -> None:
    machines = nodes_in_zones(a="1", b="1", c="2")
    assert _spread(machines, _constraint()) == ["a", "b", "c"]
    machines.assign_pod(assigned_pod("w1", labels={"app": "web"}), "a")
    assert _spread(machines, _constraint()) == ["c"]
    assert _spread(machines, _constraint(skew=2)) == ["a", "b", "c"]
    machines.assign_pod(assigned_pod("w2", labels={"app": "web"}), "c")
    assert _spread(machines, _constraint()) == ["a", "b", "c"]
    machines.remove_pod("w2")
    assert _spread(machines, _constraint()) == ["c"]


def test_spread_counts_neither_other_namespaces_nor_pods_that_go() -> None:
    machines = nodes_in_zones(a="1", b="2")
    machines.assign_pod(assigned_pod("w1", labels={"app": "web"})._replace(namespace="other"), "a")
    machines.assign_pod(assigned_pod("w2", labels={"app": "web"})._replace(terminating=True), "a")
    assert _spread(machines, _constraint()) == ["a", "b"]


def test_zones_that_the_pod_cannot_use_do_not_count() -> None:
    machines = nodes_in_zones(a="1", b="2")
    machines.assign_pod(assigned_pod("w1", labels={"app": "web"}), "a")
    only_a = {"nodeSelector": {"kubernetes.io/hostname": "a"}}
    assert _spread(machines, _constraint(), **only_a) == ["a", "b"]
    assert _spread(machines, _constraint(nodeAffinityPolicy="Ignore"), **only_a) == ["b"]


def test_fewer_domains_than_wanted_count_as_empty_ones() -> None:
    machines = nodes_in_zones(a="1")
    machines.assign_pod(assigned_pod("w1", labels={"app": "web"}), "a")
    assert _spread(machines, _constraint(minDomains=2)) == []


def test_node_without_the_label_is_told_so() -> None:
    machines = nodes_named("a")
    refused = topology_spread(requirements_of(topologySpreadConstraints=[_constraint()]), "ns", {"app": "web"}, machines)
    assert _texts(refused[0]) == ("node(s) didn't match pod topology spread constraints (missing required label)",)


def test_spread_that_is_only_wished_for_prefers_empty_zones() -> None:
    machines = nodes_in_zones(a="1", b="2")
    machines.assign_pod(assigned_pod("w1", labels={"app": "web"}), "a")
    soft = requirements_of(topologySpreadConstraints=[_constraint(whenUnsatisfiable="ScheduleAnyway")])
    assert topology_spread(soft, "ns", {"app": "web"}, machines) == {}
    scores = topology_spread_scores(soft, "ns", {"app": "web"}, machines, iter(machines))
    assert scores[1] > scores[0]


# --- neighbours ----------------------------------------------------------------------------------------------------


def _near(kind: str, key: str = "zone", app: str = "web", **more: Any) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _allowed(
    machines: NodeCache, name: str = "p", namespaces: dict[str, dict[str, str]] | None = None, **pod: Any
) -> list[str]:
    refused = inter_pod_affinity(assigned_pod(name, **pod), machines, namespaces or {})
    return [m.name for m in machines if m.index not in refused]


def test_affinity_is_to_where_the_others_are() -> None:
    machines = nodes_in_zones(a="1", b="1", c="2")
    machines.assign_pod(assigned_pod("w", labels={"app": "web"}), "a")
    assert _allowed(machines, affinity=_near("podAffinity")) == ["a", "b"]


def test_first_of_a_group_may_go_anywhere_and_a_stranger_nowhere() -> None:
    machines = nodes_in_zones(a="1", b="2")
    together = _near("podAffinity")
    assert _allowed(machines, labels={"app": "web"}, affinity=together) == ["a", "b"]
    assert _allowed(machines, labels={"app": "db"}, affinity=together) == []


def test_anti_affinity_keeps_away_on_both_sides() -> None:
    machines = nodes_in_zones(a="1", b="1", c="2")
    apart = _near("podAntiAffinity")
    machines.assign_pod(assigned_pod("w", labels={"app": "web"}, affinity=apart), "a")
    assert _allowed(machines, labels={"app": "web"}, affinity=apart) == ["c"]
    assert _allowed(machines, labels={"app": "web"}) == ["c"]
    assert _allowed(machines, labels={"app": "db"}) == ["a", "b", "c"]


def test_terms_mean_the_pods_own_namespace_unless_they_say_otherwise() -> None:
    machines = nodes_in_zones(a="1", b="2")
    machines.assign_pod(assigned_pod("w", labels={"app": "web"})._replace(namespace="other"), "a")
    assert _allowed(machines, affinity=_near("podAntiAffinity")) == ["a", "b"]
    assert _allowed(machines, affinity=_near("podAntiAffinity", namespaces=["other"])) == ["b"]
    assert _allowed(machines, affinity=_near("podAntiAffinity", namespaceSelector={})) == ["b"]
    team = {"matchLabels": {"team": "x"}}
    by_label = _near("podAntiAffinity", namespaceSelector=team)
    assert _allowed(machines, namespaces={"other": {"team": "x"}}, affinity=by_label) == ["b"]
    assert _allowed(machines, namespaces={"other": {"team": "y"}}, affinity=by_label) == ["a", "b"]


def test_preferred_neighbours_draw_and_push() -> None:
    machines = nodes_in_zones(a="1", b="2")
    machines.assign_pod(assigned_pod("w", labels={"app": "web"}), "a")
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": term}]}
    near = inter_pod_affinity_scores(assigned_pod("p", affinity={"podAffinity": wish}), machines, {}, machines)
    far = inter_pod_affinity_scores(assigned_pod("p", affinity={"podAntiAffinity": wish}), machines, {}, machines)
    assert (near, far) == ({0: 100, 1: 0}, {0: 0, 1: 100})
