"""Differences between Kubernetes releases in the controllers that no feature gate decides, one flag each."""

from __future__ import annotations

from typing import NamedTuple

from allotment.model.features import Features


class ControllerRelease(NamedTuple):
    """The behavior of a release."""

    sorts_claim_statuses: bool
    """From 1.37: the claims in a pod's status are in the order of their names, not of the pod's entries."""
    pods_await_groups: bool
    """From 1.37: a pod gets claims only when its PodGroup exists, even if the group has no claims."""
    pool_views: bool
    """From 1.37: the status of a pool counts taints and shared devices, summarizes partitions and shareable devices,
    and is not written while a pool is incomplete."""
    job_groups: bool
    """From 1.37: WorkloadWithJob creates v1beta1 objects for Jobs; the gate of 1.36 creates other objects."""
    reports_unused_claims: bool
    """From 1.37: a condition of each bound PersistentVolumeClaim states whether any pod uses it."""


def controller_release(features: Features) -> ControllerRelease:
    """The behavior of the release that ``features`` describes."""
    from_1_37 = features.since("1.37")
    return ControllerRelease(
        sorts_claim_statuses=from_1_37, pods_await_groups=from_1_37, pool_views=from_1_37, job_groups=from_1_37,
        reports_unused_claims=from_1_37,
    )  # fmt: skip
