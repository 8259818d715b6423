"""Which taints of a node a pod cannot stand."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.model.core import Taint
from allotment.node_fit.filters.node_eligibility import tolerates
from allotment.tools.plan.pending_pods.demand import Waiting


def untolerated(pod: Waiting, taints: Iterable[Taint]) -> str:
    """The first taint that keeps a pod away, in words; empty if there is none."""
    for taint in taints:
        if taint.effect != "PreferNoSchedule" and not tolerates(pod.asked.tolerations, taint):
            return f"taint {taint.key}{f'={taint.value}' if taint.value else ''} is not tolerated"
    return ""
