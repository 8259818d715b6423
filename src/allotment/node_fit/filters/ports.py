"""Filter by host ports."""

from __future__ import annotations

from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.nodes import CachedNode
from allotment.node_fit.pod_requirements import PodRequirements

_TAKEN = Refusal(
    ("node(s) didn't have free ports for the requested pod ports",), preemption_may_help=True, cause="ports"
)


def ports(requirements: PodRequirements, node: CachedNode) -> Refusal | None:
    """Reject a node where a host port of the pod is in use. 0.0.0.0 conflicts with the same port on any address."""
    if not requirements.ports or not node.ports:
        return None
    if any(wanted.conflicts_with(used) for wanted in requirements.ports for used in node.ports):
        return _TAKEN
    return None
