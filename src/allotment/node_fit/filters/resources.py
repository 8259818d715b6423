"""Filter by free resources: number of pods, cpu, memory and all other counted resources."""

from __future__ import annotations

from collections.abc import Set

from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.nodes import CachedNode
from allotment.node_fit.pod_requirements import PodRequirements

#: The order of Kubernetes' reasons; other resources follow by name.
_FIRST = {"cpu": 0, "memory": 1, "ephemeral-storage": 2}


def resources(requirements: PodRequirements, node: CachedNode, dra_resources: Set[str] = frozenset()) -> Refusal | None:
    """Reject a node without enough free resources.

    ``dra_resources`` are extended resources that DeviceClasses provide where the node itself has none.
    """
    texts: list[str] = []
    exceeds_allocatable = False
    if len(node.pods) + 1 > node.pods_allowed:
        texts.append("Too many pods")
    free = node.free
    for name, requested in requirements.requests.items():
        if requested <= free.get(name, 0):
            continue
        allocatable = node.allocatable.get(name, 0)
        if name in dra_resources and allocatable <= 0:
            continue
        texts.append(f"Insufficient {name}")
        exceeds_allocatable = exceeds_allocatable or requested > allocatable
    if not texts:
        return None
    if len(texts) > 1:
        texts.sort(key=lambda text: (_FIRST.get(text.removeprefix("Insufficient "), 3), text))
    return Refusal(tuple(texts), preemption_may_help=not exceeds_allocatable, cause="resources")
