"""Pods that fit only after other pods: planned only if their node is the same in both retry orders."""

from __future__ import annotations

from typing import Any

from allotment.fleet.cluster import cluster_of
from allotment.fleet.description import parse_fleet
from allotment.model.meta import Object
from allotment.planning.formulation.problem import Formulation
from allotment.planning.limits import PlanLimits
from allotment.planning.pending_pods.demand import read_demand
from allotment.planning.placement.assignment import assign_pods
from allotment.planning.placement.planned_nodes import NodeNames, planned_nodes
from tests.unit.planning.demands import FEATURES, claim, claim_template, instance, make_plan, node, pod, pods, request
from tests.unit.planning.running_cluster import anti_affinity, spread
from tests.unit.planning.scheduler_verification import scheduling_differences

APP = {"app": "a"}
ZONE = "topology.kubernetes.io/zone"
#: One zone, and one type of machine with a GPU.
CATALOG = (instance("cpu", "", 0, "0.1"), instance("t4", "t4", 1, "0.5"))


def order_dependent_pods() -> list[Object]:
    """Two pods share a claim, and so a node, with a spread over nodes: the second fits when another node has a pod.

    It fits immediately if the third pod is on another node, and no longer once the fourth is on the node of the first.
    """
    even: dict[str, Any] = {"labels": APP, "topologySpreadConstraints": spread(APP), "claim": "gpu"}
    return [
        claim("gpu", request()),
        pod("first", **even),
        pod("second", **even),
        pod("third", labels=APP, affinity=anti_affinity(APP, ZONE)),
        pod("fourth", labels=APP),
    ]


def test_a_pod_is_planned_only_if_its_node_is_the_same_in_both_retry_orders() -> None:
    values = order_dependent_pods()
    found = make_plan(values, CATALOG)
    assert scheduling_differences(values, found, CATALOG, FEATURES) == []
    assert [(pod.pod.name, pod.code) for pod in found.unserved] == [("second", "order")]
    note = (
        "the placement of 1 pod depends on the order in which the scheduler retries pods; "
        "it may use capacity that is planned for other pods"
    )
    assert note in found.notes


def test_a_pod_that_fits_after_others_in_both_orders_is_planned_with_a_note() -> None:
    values = order_dependent_pods()[:-1]
    found = make_plan(values, CATALOG)
    assert scheduling_differences(values, found, CATALOG, FEATURES) == []
    assert found.unserved == ()
    assert any(
        note.startswith("1 pod fits only after other pods are placed; this was verified with") for note in found.notes
    )


def test_the_placement_of_one_claims_users_is_independent_of_another_claims_users() -> None:
    """Two unplanned pairs: the first node has capacity for one pod, the second for two."""
    existing = cluster_of(parse_fleet(["small=t4", "large=t4"]))
    values: list[Object] = [
        node("small", cpu="8"), node("large", cpu="16"), *existing.slices, *existing.classes,
        claim("x", request()), *pods(2, "x", claim="x", cpu="7"),
        claim("y", request()), *pods(2, "y", claim="y", cpu="7"),
    ]  # fmt: skip
    formulation = Formulation(read_demand(values, FEATURES), (), PlanLimits())
    items = [kind.items for kind in formulation.kinds]
    unplanned = [id(item) for of_kind in items for item in of_kind]
    found = assign_pods(formulation, planned_nodes(formulation, (), NodeNames(())), items, unplanned, lambda *_: None)
    assert [node for _, (node, _) in sorted(found.placements.items())] == ["small", "large", "large"]


def test_a_pod_with_affinity_by_host_goes_to_another_host_if_the_first_is_rejected() -> None:
    """Three pods have affinity by host and a spread over two zones: the third fits only next to another pod."""
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
