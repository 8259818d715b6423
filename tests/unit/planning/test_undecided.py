"""Plans with nodes whose device search reaches its limit: other nodes are used, and the fit is reported as unknown."""

from __future__ import annotations

from functools import partial

import pytest

from allotment.engine.allocator import Allocator
from allotment.model.meta import Object
from tests.unit.engine.hard_search import SLIM, devices_without_counters, gpu_slices
from tests.unit.engine.objects import class_of
from tests.unit.planning.consolidation.test_search import consolidated, kept_code
from tests.unit.planning.demands import claim_template, make_plan, node, pod, request
from tests.unit.planning.running_cluster import RunningCluster, node_names
from tests.unit.planning.running_cluster import request as plain_request

LIMIT = 500
GIVEN_UP = f"search for devices stopped after {LIMIT} steps"


@pytest.fixture(autouse=True)
def _low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limited = partial(Allocator, step_limit=LIMIT)
    for module in ("offerings.hypothetical_nodes", "placement.trial", "consolidation.rescheduling"):
        monkeypatch.setattr(f"allotment.planning.{module}.Allocator", limited)


def pending_objects(*nodes: Object) -> list[Object]:
    return [class_of(), *nodes, claim_template("eight", request(of="gpu", count=SLIM)), pod("p", template="eight")]


def test_a_pod_is_planned_on_a_node_with_a_finished_search() -> None:
    found = make_plan(pending_objects(node("n1"), *gpu_slices("n1"), node("n2"), devices_without_counters("n2")), ())
    assert [(placement.pod.name, placement.node) for placement in found.existing] == [("p", "n2")]
    assert not found.unserved


def test_a_pod_that_may_fit_is_undecided() -> None:
    found = make_plan(pending_objects(node("n1"), *gpu_slices("n1")), ())
    (unserved,) = found.unserved
    assert (unserved.code, unserved.text) == (
        "undecided", f"it is unknown whether n1 fits: the search for devices stopped after {LIMIT} steps"
    )  # fmt: skip
    assert (
        "the search for devices reached its step limit on n1; the lower bound assumes that the pods do not fit there"
        in found.notes
    )


def cluster_with(*other: str) -> RunningCluster:
    """A cluster with a pod on ``leaving``, a node with the card, and others with as many devices as the pod has."""
    cluster = RunningCluster()
    cluster.add_class(class_of())
    for name in ("card", "leaving", *other):
        cluster.node(name)
    for part in (*gpu_slices("card"), *map(devices_without_counters, ("leaving", *other))):
        cluster.publish(part)
    cluster.pod("p", "leaving", template=cluster.template("eight", plain_request(class_name="gpu", count=SLIM)))
    return cluster


def test_a_pod_moves_to_a_node_with_a_finished_search() -> None:
    found = consolidated(cluster_with("other"), "leaving")
    assert node_names(found.remove) == ["leaving"]
    assert [(move.pod.name, move.target) for move in found.moves] == [("p", "other")]


def test_a_node_is_kept_if_the_fit_of_its_pod_elsewhere_is_undecided() -> None:
    found = consolidated(cluster_with(), "leaving")
    assert kept_code(found, "leaving") == "no-place"
    assert GIVEN_UP in found.stays[0].text
