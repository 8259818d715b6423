"""Cluster events that can make a pending pod schedulable, and which event can resolve which cause of refusal.

A pod is retried only when one of its own causes may be resolved: a freed device does not wake pods that lack memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Final


class ClusterEvent(Enum):
    """Changes that pending pods can wait for."""

    NODE = auto()
    """A node was added, or changed its labels, taints or allocatable resources."""
    POD_GONE = auto()
    """A pod left its node, finished, or reduced its requests."""
    POD_PLACED = auto()
    """A pod was assigned to a node, or changed its labels there."""
    CLAIM_FREED = auto()
    CLAIM_CHANGED = auto()
    """A claim that the pod references was created, allocated or reserved."""
    CLAIM_ALLOCATED = auto()
    """Any claim was allocated."""
    SLICE = auto()
    CLASS = auto()
    RULE = auto()
    GROUP = auto()
    """A PodGroup was added or deleted."""


_E = ClusterEvent

#: Changes of what pods are scheduled onto, as opposed to changes of usage.
CLUSTER_STATE_EVENTS: Final = frozenset({_E.NODE, _E.SLICE, _E.CLASS, _E.RULE})

#: By the cause of a refusal (`node_fit.refusal.Refusal.cause`, and the causes of whole attempts).
EVENTS_BY_CAUSE: Final[Mapping[str, frozenset[ClusterEvent]]] = {
    "unschedulable": frozenset({_E.NODE}),
    "name": frozenset({_E.NODE}),
    "taint": frozenset({_E.NODE}),
    "affinity": frozenset({_E.NODE}),
    "resources": frozenset({_E.NODE, _E.POD_GONE, _E.CLASS}),
    "ports": frozenset({_E.NODE, _E.POD_GONE}),
    "spread": frozenset({_E.NODE, _E.POD_GONE, _E.POD_PLACED}),
    "neighbours": frozenset({_E.NODE, _E.POD_GONE, _E.POD_PLACED}),
    "nominated": frozenset({_E.NODE, _E.POD_GONE, _E.POD_PLACED}),
    "claim": frozenset({_E.NODE, _E.CLAIM_FREED, _E.CLAIM_CHANGED}),
    "class": frozenset({_E.CLASS, _E.CLAIM_CHANGED}),
    "devices": frozenset({_E.NODE, _E.CLAIM_FREED, _E.SLICE, _E.CLASS, _E.RULE}),
    # An allocation changes the search, too: it may then end before its step limit.
    "undecided": frozenset({_E.NODE, _E.CLAIM_FREED, _E.CLAIM_ALLOCATED, _E.SLICE, _E.CLASS, _E.RULE}),
    "nodes": frozenset({_E.NODE}),
    "group": frozenset({_E.GROUP}),
}


def events_for(causes: Iterable[str]) -> frozenset[ClusterEvent]:
    """Return every event that can resolve any of these causes."""
    return frozenset[ClusterEvent]().union(*(EVENTS_BY_CAUSE[cause] for cause in causes))
