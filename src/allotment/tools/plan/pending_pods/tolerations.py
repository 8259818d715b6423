"""Taints of a node that a pod does not tolerate."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.model.core import Taint
from allotment.node_fit.filters.node_eligibility import tolerates
from allotment.tools.plan.pending_pods.demand import PendingPod


def untolerated(pod: PendingPod, taints: Iterable[Taint]) -> str:
    """The first taint that excludes a pod, as text; empty if there is none."""
    for taint in taints:
        if taint.effect != "PreferNoSchedule" and not tolerates(pod.requirements.tolerations, taint):
            return f"taint {taint.key}{f'={taint.value}' if taint.value else ''} is not tolerated"
    return ""
