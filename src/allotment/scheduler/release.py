"""Differences between Kubernetes releases in scheduling, one flag each."""

from __future__ import annotations

from typing import NamedTuple

from allotment.model.features import Features
from allotment.model.pod_groups import are_pods_scheduled_together


class SchedulerRelease(NamedTuple):
    """The behavior of a release."""

    reports_unchanged_claims: bool
    """Until 1.36, the message of a pod says that no claim was freed: ``still not schedulable``."""
    reports_preemption: bool
    """From 1.37, the message of a pod that preempts others names its node and the number of victims."""
    stops_at_violated_budget: bool
    """From 1.37, a pod whose eviction violates a PodDisruptionBudget does not count for the budgets after it."""
    schedules_groups: bool
    """From 1.37, the pods of a PodGroup are scheduled together (gate GenericWorkload). The alpha of 1.36 is not
    implemented: there, each pod is scheduled by itself."""


def scheduler_release(features: Features) -> SchedulerRelease:
    """Return the behavior of the release that ``features`` describes."""
    before_1_37 = not features.since("1.37")
    return SchedulerRelease(
        reports_unchanged_claims=before_1_37,
        reports_preemption=not before_1_37,
        stops_at_violated_budget=not before_1_37,
        schedules_groups=are_pods_scheduled_together(features),
    )
