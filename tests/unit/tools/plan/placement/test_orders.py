"""Pods that others let in by coming: promised only where it makes no difference when they are tried again."""

from __future__ import annotations

from typing import Any

from allotment.fleet.cluster import cluster_of
from allotment.fleet.description import parse_fleet
from allotment.model.meta import Object
from allotment.tools.plan.formulation.problem import Formulation
from allotment.tools.plan.limits import PlanLimits
from allotment.tools.plan.pending_pods.demand import read_demand
from allotment.tools.plan.placement.assignment import assign_pods
from allotment.tools.plan.placement.planned_nodes import NodeNames, planned_nodes
from tests.unit.tools.plan.demands import FEATURES, claim, claim_template, instance, node, make_plan, pod, pods, request
from tests.unit.tools.plan.scheduler_verification import scheduling_differences
from tests.unit.tools.plan.running_cluster import anti_affinity, spread

APP = {"app": "a"}
ZONE = "topology.kubernetes.io/zone"
#: One zone, and one type of machine with a GPU.
CATALOG = (instance("cpu", "", 0, "0.1"), instance("t4", "t4", 1, "0.5"))


def order_dependent_pods() -> list[Object]:
    """Two pods share a claim, so a node, and are spread over nodes: the second may come when another node has one.

    It may come at once when the third is elsewhere. Once the fourth is beside the first it may not any more.
    """
    even: dict[str, Any] = {"labels": APP, "topologySpreadConstraints": spread(APP), "claim": "gpu"}
    return [
        claim("gpu", request()),
        pod("first", **even),
        pod("second", **even),
        pod("third", labels=APP, affinity=anti_affinity(APP, ZONE)),
        pod("fourth", labels=APP),
    ]


def test_a_pod_is_promised_a_node_only_if_it_gets_it_whenever_it_is_tried_again() -> None:
    values = order_dependent_pods()
    found = make_plan(values, CATALOG)
    assert scheduling_differences(values, found, CATALOG, FEATURES) == []
    assert [(one.pod.name, one.code) for one in found.unserved] == [("second", "order")]
    note = "1 pod hangs on the order in which pods are tried again, and may then take what is planned for others"
    assert note in found.notes


def test_who_is_let_in_by_others_at_any_time_is_promised_a_node_with_a_note() -> None:
    values = order_dependent_pods()[:-1]
    found = make_plan(values, CATALOG)
    assert scheduling_differences(values, found, CATALOG, FEATURES) == []
    assert found.unserved == ()
    assert any(note.startswith("1 pod is let in only by others that come; proven if") for note in found.notes)


def test_what_becomes_of_the_users_of_one_claim_says_nothing_of_those_of_another() -> None:
    """Two pairs that nothing is bought for: the first node has room for one pod, the second for two."""
    there = cluster_of(parse_fleet(["small=t4", "large=t4"]))
    values: list[Object] = [
        node("small", cpu="8"), node("large", cpu="16"), *there.slices, *there.classes,
        claim("x", request()), *pods(2, "x", claim="x", cpu="7"),
        claim("y", request()), *pods(2, "y", claim="y", cpu="7"),
    ]  # fmt: skip
    question = Formulation(read_demand(values, FEATURES), (), PlanLimits())
    items = [kind.items for kind in question.kinds]
    everybody = [id(item) for ones in items for item in ones]
    found = assign_pods(question, planned_nodes(question, (), NodeNames(())), items, everybody, lambda *_: None)
    assert [node for _, (node, _) in sorted(found.placements.items())] == ["small", "large", "large"]


def test_pods_that_want_one_host_go_to_another_where_the_first_one_s_is_refused() -> None:
    """Three want to be near some pod, over two zones: the third may not stay with the first two, but beside another."""
    near: dict[str, Any] = {
        "labels": APP,
        "affinity": {"podAffinity": anti_affinity(APP)["podAntiAffinity"]},
        "topologySpreadConstraints": [{**spread(APP, ZONE)[0], "minDomains": 2}],
    }
    values = [claim_template("any", request()), *pods(3, "near", template="any", **near), *pods(2, "other", labels=APP)]
    catalog = (instance("t4x4", "t4", 4, "1.6", cpus=32),)
    found = make_plan(values, catalog)
    assert found.unserved == ()
    assert scheduling_differences(values, found, catalog, FEATURES) == []
