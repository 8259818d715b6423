"""PodDisruptionBudgets that the eviction of pods would violate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from allotment.model.core import LabelSelector
from allotment.model.trees import Tree, to_value
from allotment.node_fit.assigned_pod import AssignedPod
from allotment.node_fit.label_selectors import matcher


class DisruptionBudgets(NamedTuple):
    """All PodDisruptionBudgets of the cluster."""

    trees: Sequence[Tree] = ()
    stops_at_violated: bool = True
    """Whether a pod that violates a budget does not count for the later ones (`SchedulerRelease`)."""

    def violating_pods(self, pods: Sequence[AssignedPod]) -> frozenset[str]:
        """Return the uids of pods whose eviction, in this order, would violate a budget."""
        left = [int((b.get("status") or {}).get("disruptionsAllowed") or 0) for b in self.trees]
        selectors = [_selector(b) for b in self.trees]
        found: set[str] = set()
        for pod in pods:
            for number, budget in enumerate(self.trees):
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
                    if self.stops_at_violated:
                        break
        return frozenset(found)


def _selector(budget: Tree) -> Callable[[Mapping[str, str]], bool] | None:
    """Return the budget's matcher, or None if the budget selects nothing."""
    tree = (budget.get("spec") or {}).get("selector")
    if not tree or not (tree.get("matchLabels") or tree.get("matchExpressions")):
        return None
    return matcher(to_value({k: v for k, v in tree.items() if v is not None}, LabelSelector))
