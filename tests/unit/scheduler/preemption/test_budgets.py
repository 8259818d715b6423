"""PodDisruptionBudgets that evictions would violate."""

from __future__ import annotations

from allotment.model.features import Features
from allotment.model.trees import Tree
from allotment.scheduler.preemption.budgets import DisruptionBudgets
from allotment.scheduler.release import scheduler_release
from tests.unit.scheduler.machines import assigned_pod


def _budget(label: str, allowed: int, **status: Tree) -> Tree:
    return {
        "metadata": {"name": label, "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {label: "x"}}},
        "status": {"disruptionsAllowed": allowed, **status},
    }


def test_a_pod_that_violates_a_budget_counts_for_later_budgets_until_1_36_only() -> None:
    """From the source of kube-scheduler 1.36.3 and 1.37.2."""
    pods = [assigned_pod("both", labels={"a": "x", "b": "x"}), assigned_pod("second", labels={"b": "x"})]
    budgets = [_budget("a", 0), _budget("b", 1)]
    for version, violating in (("1.36", {"both", "second"}), ("1.37", {"both"})):
        stops = scheduler_release(Features(version)).stops_at_violated_budget
        assert DisruptionBudgets(budgets, stops).violating_pods(pods) == violating


def test_a_pod_that_violates_no_budget_counts_for_all() -> None:
    pods = [assigned_pod("both", labels={"a": "x", "b": "x"}), assigned_pod("second", labels={"b": "x"})]
    assert DisruptionBudgets([_budget("a", 1), _budget("b", 1)]).violating_pods(pods) == {"second"}


def test_a_pod_that_the_api_server_already_disrupts_is_not_counted_again() -> None:
    budget = _budget("a", 0, disruptedPods={"gone": "2026-01-01T00:00:00Z"})
    assert not DisruptionBudgets([budget]).violating_pods([assigned_pod("gone", labels={"a": "x"})])
