"""What is played: a cluster, and pods that come to it one after the other."""

from __future__ import annotations

from typing import Final, NamedTuple

from allotment.model.trees import Tree

#: The namespace of pods, and another where claims may have admin access; both are there.
NAMESPACE: Final = "plain"
PRIVILEGED: Final = "privileged"
#: Devices with this binding condition get ready, those with another fail.
READY: Final = "example.com/ready"
#: PriorityClasses that are there, with their values and whether others are sent away for such pods.
PRIORITIES: Final = {
    "low": (10, "PreemptLowerPriority"),
    "middle": (50, "PreemptLowerPriority"),
    "high": (100, "PreemptLowerPriority"),
    "calm": (100, "Never"),
}


class World(NamedTuple):
    """``cluster``: nodes, slices, classes, rules, shared claims, templates, in the order in which they are made;
    ``pods`` come one after the other."""

    cluster: list[Tree]
    pods: list[Tree]

    def of(self, *kinds: str) -> list[Tree]:
        """The objects of these kinds."""
        return [one for one in self.cluster if one["kind"] in kinds]
