"""A scenario: a cluster, and pods that are created one after the other."""

from __future__ import annotations

from typing import Final, NamedTuple

from allotment.model.trees import Tree

#: The namespace of pods, and another where claims may have admin access; both exist.
NAMESPACE: Final = "plain"
PRIVILEGED: Final = "privileged"
#: Devices with this binding condition become ready, those with another fail.
READY: Final = "example.com/ready"
#: The existing PriorityClasses, with their values and whether they preempt.
PRIORITIES: Final = {
    "low": (10, "PreemptLowerPriority"),
    "middle": (50, "PreemptLowerPriority"),
    "high": (100, "PreemptLowerPriority"),
    "calm": (100, "Never"),
}


class Scenario(NamedTuple):
    """``cluster``: nodes, slices, classes, rules, shared claims, templates, in the order of creation; ``pods`` follow
    one at a time."""

    cluster: list[Tree]
    pods: list[Tree]

    def of_kind(self, *kinds: str) -> list[Tree]:
        """The objects of these kinds."""
        return [item for item in self.cluster if item["kind"] in kinds]
