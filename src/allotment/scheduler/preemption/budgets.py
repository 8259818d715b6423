"""PodDisruptionBudgets that the eviction of pods would violate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from allotment.model.core import LabelSelector
from allotment.model.trees import Tree, to_value
from allotment.node_fit.assigned_pod import AssignedPod
from allotment.node_fit.label_selectors import matcher


def violating_pods(pods: Sequence[AssignedPod], budgets: Sequence[Tree]) -> frozenset[str]:
    """Return the uids of pods whose eviction would violate a PodDisruptionBudget."""
    left = [int((b.get("status") or {}).get("disruptionsAllowed") or 0) for b in budgets]
    selectors = [_selector(b) for b in budgets]
    found: set[str] = set()
    for pod in pods:
        for number, budget in enumerate(budgets):
            matches = selectors[number]
            if matches is None or budget["metadata"].get("namespace", "") != pod.namespace:
                continue
            if not pod.labels or not matches(pod.labels):
                continue
            if pod.name in ((budget.get("status") or {}).get("disruptedPods") or {}):
                continue  # already counted by the API server
            left[number] -= 1
            if left[number] < 0:
                found.add(pod.uid)
    return frozenset(found)


def _selector(budget: Tree) -> Callable[[Mapping[str, str]], bool] | None:
    """Return the budget's matcher, or None if the budget selects nothing."""
    tree = (budget.get("spec") or {}).get("selector")
    if not tree or not (tree.get("matchLabels") or tree.get("matchExpressions")):
        return None
    return matcher(to_value({k: v for k, v in tree.items() if v is not None}, LabelSelector))
