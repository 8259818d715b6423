"""Filters of nodes for a pod: plain functions, in the order in which kube-scheduler runs them.

A filter here depends on one node alone, so that its result is valid until that node changes. Filters that depend on
pods elsewhere (`topology_spread`, `inter_pod_affinity`) return results for all nodes; devices (`node_fit.device_table`)
are the last filter.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from allotment.node_fit.filters.node_eligibility import node_affinity, schedulable, taints
from allotment.node_fit.filters.ports import ports
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.filters.resources import resources
from allotment.node_fit.nodes import CachedNode
from allotment.node_fit.pod_requirements import PodRequirements

Filter = Callable[[PodRequirements, CachedNode], Refusal | None]

FILTERS: tuple[Filter, ...] = (schedulable, taints, node_affinity, ports)


def run_filters(
    requirements: PodRequirements, node: CachedNode, dra_resources: Set[str] = frozenset()
) -> Refusal | None:
    """Return the refusal of the first filter that rejects the node, or None if the node passes all of them."""
    for filter in FILTERS:
        refusal = filter(requirements, node)
        if refusal is not None:
            return refusal
    return resources(requirements, node, dra_resources)
