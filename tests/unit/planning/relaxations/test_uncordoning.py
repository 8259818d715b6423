"""A plan names the cordoned nodes on which pods fit, before machines are ordered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from allotment.fleet import CLASSES, hardware, parse_mode, slices_of
from allotment.model.core import Pod
from allotment.model.meta import Object
from allotment.planning.limits import PlanLimits
from allotment.planning.relaxations.uncordoning import CordonedNode, cordoned_nodes_that_fit
from tests.unit.planning.demands import FEATURES, claim_template, instance, make_plan, node, pod, pods, request

CATALOG = (instance("box", "a10g", 4, "4"),)
TEMPLATE = claim_template("one", request())


def gpu_node(name: str, gpus: int = 2, *, cpu: str = "16", **spec: Any) -> tuple[Object, ...]:
    machine = hardware("a10g", gpus)
    return (node(name, cpu=cpu, **spec), *slices_of(machine, parse_mode("", machine), name))


def found(*objects: Object) -> list[tuple[str, int]]:
    """The names of the cordoned nodes, with the number of pods."""
    return [(each.node, len(each.pods)) for each in nodes_that_fit(objects)]


def nodes_that_fit(objects: Sequence[Object]) -> list[CordonedNode]:
    values = (*CLASSES["nvidia"], TEMPLATE, *objects)
    return list(cordoned_nodes_that_fit(values, make_plan(values, CATALOG), PlanLimits(), FEATURES))


def waiting(count: int) -> list[Pod]:
    return pods(count, template="one")


def test_a_cordoned_node_with_the_devices_is_named() -> None:
    (only,) = nodes_that_fit([*gpu_node("gpu-2", unschedulable=True), *waiting(2)])
    assert only.note == (
        "2 pods fit on cordoned node gpu-2 without a new machine; if it may be used: kubectl uncordon gpu-2"
    )


def test_each_cordoned_node_counts_the_pods_that_the_ones_before_leave() -> None:
    cordoned = [*gpu_node("a", 1, unschedulable=True), *gpu_node("b", 4, unschedulable=True)]
    assert found(*cordoned, *waiting(3)) == [("a", 1), ("b", 2)]


def test_nothing_is_named_if_no_machine_is_ordered() -> None:
    assert found(*gpu_node("free", 2), *gpu_node("gpu-2", unschedulable=True), *waiting(2)) == []


def test_a_cordoned_node_on_which_no_pod_fits_is_not_named() -> None:
    assert found(*gpu_node("small", cpu="500m", unschedulable=True), *waiting(1)) == []
    taint = {"key": "dedicated", "value": "other", "effect": "NoSchedule"}
    assert found(*gpu_node("tainted", unschedulable=True, taints=[taint]), *waiting(1)) == []
    assert found(*gpu_node("selected", unschedulable=True), pod("p", template="one", nodeSelector={"pool": "x"})) == []


def test_a_pod_that_the_plan_does_not_serve_may_fit_on_a_cordoned_node() -> None:
    values = (*CLASSES["nvidia"], TEMPLATE, *gpu_node("gpu-2", unschedulable=True), *waiting(1))
    plan = make_plan(values, ())
    assert len(plan.unserved) == 1
    (only,) = cordoned_nodes_that_fit(values, plan, PlanLimits(), FEATURES)
    assert only.node == "gpu-2"
