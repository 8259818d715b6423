"""What can happen in the cluster that may help a pod that found no node, and what helps against which refusal.

A pod that waits is looked at again only when one of its own causes may be gone: a freed device does not wake pods that
lack memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Final


class Happening(Enum):
    """Changes that pods wait for."""

    NODE = auto()
    """A node came, or changed its labels, taints or amounts."""
    POD_GONE = auto()
    """A pod left its node, ended, or asks for less."""
    POD_PLACED = auto()
    """A pod came to a node, or changed its labels there."""
    CLAIM_FREED = auto()
    CLAIM_CHANGED = auto()
    """A claim that the pod names was created, allocated or reserved."""
    CLAIM_ALLOCATED = auto()
    """A claim, of whatever pod, got its devices."""
    SLICE = auto()
    CLASS = auto()
    RULE = auto()
    GROUP = auto()
    """A PodGroup came, or went."""


_H = Happening

#: Changes of what pods are placed on, as against changes of who has what of it.
OF_SURROUNDINGS: Final = frozenset({_H.NODE, _H.SLICE, _H.CLASS, _H.RULE})

#: By the cause of a refusal (`filters.refusal.Refusal.cause`, and those of whole attempts).
HELPED_BY: Final[Mapping[str, frozenset[Happening]]] = {
    "unschedulable": frozenset({_H.NODE}),
    "name": frozenset({_H.NODE}),
    "taint": frozenset({_H.NODE}),
    "affinity": frozenset({_H.NODE}),
    "resources": frozenset({_H.NODE, _H.POD_GONE, _H.CLASS}),
    "ports": frozenset({_H.NODE, _H.POD_GONE}),
    "spread": frozenset({_H.NODE, _H.POD_GONE, _H.POD_PLACED}),
    "neighbours": frozenset({_H.NODE, _H.POD_GONE, _H.POD_PLACED}),
    "nominated": frozenset({_H.NODE, _H.POD_GONE, _H.POD_PLACED}),
    "claim": frozenset({_H.NODE, _H.CLAIM_FREED, _H.CLAIM_CHANGED}),
    "class": frozenset({_H.CLASS, _H.CLAIM_CHANGED}),
    "devices": frozenset({_H.NODE, _H.CLAIM_FREED, _H.SLICE, _H.CLASS, _H.RULE}),
    # The search goes another way when devices are taken, too: it may then end before its step limit.
    "undecided": frozenset({_H.NODE, _H.CLAIM_FREED, _H.CLAIM_ALLOCATED, _H.SLICE, _H.CLASS, _H.RULE}),
    "nodes": frozenset({_H.NODE}),
    "group": frozenset({_H.GROUP}),
}


def helped_by(causes: Iterable[str]) -> frozenset[Happening]:
    """Everything that may help against any of these causes."""
    return frozenset[Happening]().union(*(HELPED_BY[cause] for cause in causes))
