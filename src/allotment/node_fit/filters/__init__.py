"""Which nodes a pod may use: plain functions, in the order in which Kubernetes asks them.

A filter here looks at one node alone, so that its answers are kept until that node changes. What depends on pods
elsewhere (`spread`, `neighbours`) answers for all nodes at once, and devices come last (`placing.devices`).
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


def run_filters(requirements: PodRequirements, node: CachedNode, dra_resources: Set[str] = frozenset()) -> Refusal | None:
    """The first refusal, or None if the node would do as far as it alone is concerned."""
    for filter in FILTERS:
        refusal = filter(requirements, node)
        if refusal is not None:
            return refusal
    return resources(requirements, node, dra_resources)
