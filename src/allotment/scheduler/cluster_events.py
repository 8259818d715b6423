"""Cluster events that can make a pending pod schedulable, and which event can resolve which cause of refusal.

A pod is retried only when one of its own causes may be resolved: a freed device does not wake pods that lack memory.
Changes of a pod's own claims are no events here: they retry that pod alone (see `pending_pods.PendingPods`).
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
    CLAIM_USER_GONE = auto()
    """The same of a pod that is the only consumer of a claim: the claim's devices are about to be freed."""
    POD_PLACED = auto()
    """A pod was assigned to a node, or changed its labels there."""
    CLAIM_FREED = auto()
    CLAIM_ALLOCATED = auto()
    """Any claim was allocated."""
    SLICE = auto()
    CLASS = auto()
    RULE = auto()
    VOLUME = auto()
    """A PersistentVolume was added, freed, or changed the nodes that can use it."""
    STORAGE = auto()
    """A StorageClass or CSI object was added or changed."""
    GROUP = auto()
    """A PodGroup was added or deleted."""


_E = ClusterEvent
#: A pod uses no part of its node any more.
_LEFT: Final = frozenset({_E.POD_GONE, _E.CLAIM_USER_GONE})
_DEVICES: Final = frozenset({_E.NODE, _E.CLAIM_FREED, _E.SLICE, _E.CLASS, _E.RULE})

#: Changes of what pods are scheduled onto, as opposed to changes of usage.
CLUSTER_STATE_EVENTS: Final = frozenset({_E.NODE, _E.SLICE, _E.CLASS, _E.RULE})

#: By the cause of a refusal (`node_fit.refusal.Refusal.cause`, and the causes of whole attempts).
EVENTS_BY_CAUSE: Final[Mapping[str, frozenset[ClusterEvent]]] = {
    "unschedulable": frozenset({_E.NODE}),
    "name": frozenset({_E.NODE}),
    "taint": frozenset({_E.NODE}),
    "affinity": frozenset({_E.NODE}),
    "resources": _LEFT | {_E.NODE, _E.CLASS},
    # Kubernetes retries these pods when claims, slices or nodes change. If the claims of a pod that is gone are still
    # allocated, the attempt follows when they are freed, as there.
    "device-resources": _DEVICES | {_E.POD_GONE},
    "ports": _LEFT | {_E.NODE},
    "spread": _LEFT | {_E.NODE, _E.POD_PLACED},
    "neighbours": _LEFT | {_E.NODE, _E.POD_PLACED},
    "nominated": _LEFT | {_E.NODE, _E.POD_PLACED},
    "claim": frozenset({_E.NODE, _E.CLAIM_FREED}),
    "class": frozenset({_E.CLASS}),
    "devices": _DEVICES,
    # An allocation changes the search, too: it may then end before its step limit.
    "undecided": _DEVICES | {_E.CLAIM_ALLOCATED},
    "nodes": frozenset({_E.NODE}),
    "group": frozenset({_E.GROUP}),
    # A change of a pod's own claims retries that pod.
    "volume-claims": frozenset({_E.STORAGE}),
    "volumes": frozenset({_E.NODE, _E.VOLUME, _E.STORAGE}),
    "volume-in-use": _LEFT | {_E.NODE},
    "volume-limits": _LEFT | {_E.NODE, _E.STORAGE},
}


def events_for(causes: Iterable[str]) -> frozenset[ClusterEvent]:
    """Return every event that can resolve any of these causes."""
    return frozenset[ClusterEvent]().union(*(EVENTS_BY_CAUSE[cause] for cause in causes))
