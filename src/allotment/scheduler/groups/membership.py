"""The groups of pods that are on a node, for preemption."""

from __future__ import annotations

from typing import Any

from allotment.cluster.cache import Cache
from allotment.model import pod_groups
from allotment.node_fit.assigned_pod import AssignedPod
from allotment.scheduler.group_hierarchy import GroupHierarchy
from allotment.scheduler.preemption.victim_units import GroupMembership, Membership, without_groups


def membership_of(hierarchy: GroupHierarchy, pods: Cache[Any]) -> Membership:
    """Return a function that returns the membership of an assigned pod; without groups if they are not scheduled."""
    if not hierarchy.enabled:
        return without_groups

    def membership(pod: AssignedPod) -> GroupMembership:
        tree = pods.tree(pod.namespace, pod.name)
        if tree is None or not pod_groups.group_name(tree["spec"]):
            return without_groups(pod)
        priority = hierarchy.priority_of(tree)
        return GroupMembership(hierarchy.disrupted_with(tree), pod.priority if priority is None else priority, True)

    return membership
