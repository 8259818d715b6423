"""The selection of victims."""

from __future__ import annotations

from typing import Any

from allotment.model.trees import Tree
from allotment.node_fit.filters import run_filters
from allotment.node_fit.nodes import CachedNode, NodeCache
from allotment.scheduler.preemption.budgets import DisruptionBudgets
from allotment.scheduler.preemption.victims import Preemption, select_victims
from allotment.scheduler.reporting.fit_error import NO_VICTIMS, NOT_HELPFUL
from tests.unit.scheduler.machines import assigned_pod, nodes_named


def _place_pod(machines: NodeCache, node: str, name: str, cpu: str, **more: Any) -> None:
    machines.assign_pod(assigned_pod(name, requests={"cpu": cpu}, **more), node)


def _choose(machines: NodeCache, cpu: str, priority: int = 100, budgets: tuple[Tree, ...] = ()) -> Preemption:
    pod = assigned_pod("high", requests={"cpu": cpu}, priority=priority)

    def refuses(machine: CachedNode) -> Any:
        return run_filters(pod.requirements, machine)

    refusals = {m.index: r for m in machines if (r := refuses(m)) is not None}
    return select_victims(pod, refusals, machines, DisruptionBudgets(budgets), refuses)


def _names(found: Preemption) -> tuple[str, list[str]]:
    assert found.victims is not None
    return found.victims.node, [pod.name for pod in found.victims.pods]


def test_as_few_pods_as_possible_are_evicted_least_important_first() -> None:
    machines = nodes_named("a")
    for name, cpu, priority in (("small", "2", 1), ("big", "4", 2), ("dear", "2", 50)):
        _place_pod(machines, "a", name, cpu, priority=priority)
    assert _names(_choose(machines, "2")) == ("a", ["small"])
    assert _names(_choose(machines, "4")) == ("a", ["big"])
    (machine,) = machines
    assert sorted(machine.pods) == ["big", "dear", "small"]


def test_the_node_with_the_lowest_cost_is_chosen() -> None:
    machines = nodes_named("a", "b")
    _place_pod(machines, "a", "precious", "8", priority=90)
    _place_pod(machines, "b", "cheap", "8", priority=1)
    assert _names(_choose(machines, "4")) == ("b", ["cheap"])


def test_of_equal_costs_the_pods_started_last_are_evicted() -> None:
    machines = nodes_named("a", "b", "c")
    for node, started in (("a", "2026-01-01T00:00:00Z"), ("b", "2026-01-03T00:00:00Z"), ("c", "2026-01-02T00:00:00Z")):
        machines.assign_pod(
            assigned_pod(f"on-{node}", requests={"cpu": "8"}, priority=5)._replace(started=started), node
        )
    assert _names(_choose(machines, "4")) == ("b", ["on-b"])


def test_budget_violations_are_avoided_where_possible() -> None:
    machines = nodes_named("a", "b")
    _place_pod(machines, "a", "guarded", "8", priority=1, labels={"app": "db"})
    _place_pod(machines, "b", "free", "8", priority=50)
    budget = {
        "metadata": {"name": "db", "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0},
    }
    assert _names(_choose(machines, "4", budgets=(budget,))) == ("b", ["free"])
    assert _names(_choose(machines, "4")) == ("a", ["guarded"])


def test_reasons_are_counted_as_kubernetes_does() -> None:
    machines = nodes_named("a", "b", "c")
    _place_pod(machines, "a", "equal", "8", priority=100)
    _place_pod(machines, "b", "low", "1", priority=1)
    _place_pod(machines, "b", "equal-2", "7", priority=100)
    machines.put({"metadata": {"name": "c"}, "status": {"allocatable": {"cpu": "1", "pods": "10"}}})
    found = _choose(machines, "4")
    assert found.victims is None
    assert found.reasons == {NO_VICTIMS: 1, "Insufficient cpu": 1, NOT_HELPFUL: 1}
