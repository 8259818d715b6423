"""Kinds of remedies for a refused claim, and the distance of a remedy from what the author meant.

The distance is first the class of what is lost: a spelling correction loses nothing, a dropped condition loses what
the condition says. Within a class, fewer edits come first, then the smaller change of the values. At most two remedies
are suggested, each confirmed by the engine. The second one is a single change with a different scope and never
selects another kind of device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, Literal, NamedTuple, TypeAlias

#: What a remedy changes in the user's objects.
ChangeScope: TypeAlias = Literal["nothing", "placement", "spelling", "devices"]


class LossClass(IntEnum):
    """The part of the intent that a remedy loses; smaller is better."""

    SPELLING = 0
    """Nothing: a name or a unit is written as the author meant it."""
    CLUSTER = 1
    """Nothing: the cluster is restored or completed."""
    REFERENCE = 2
    """Another object or namespace is named, or a name in a class is corrected, for all users of the class."""
    PLACEMENT = 3
    """The same devices on other nodes."""
    WAIT = 4
    """Time: the devices must be released first."""
    FEWER = 5
    """Fewer or smaller ones of the same devices."""
    MODEL = 6
    """Other devices, with at least the stated memory."""
    MEMORY = 7
    """Less memory than stated, or devices of another class."""
    CONSTRAINT = 8
    """A constraint between devices."""
    CONDITION = 9
    """A condition, a request or a claim."""


class Distance(NamedTuple):
    """The distance of changes, made together, from what was intended; compared as a tuple.

    ``size`` is how far the new values are from the old ones: the sum of the changes' sizes, comparable within a class.
    """

    loss: int
    edits: int
    size: float = 0.0


#: The distance if no change helps.
FARTHEST: Final = Distance(len(LossClass), 0)


class Remedy(NamedTuple):
    """The scope of the change, the class of what is lost, and the reason for it."""

    scope: ChangeScope
    loss: LossClass
    why: str


REMEDIES: Final[Mapping[str, Remedy]] = {
    "correction": Remedy(
        "spelling", LossClass.SPELLING, "An expression that does not compile has one obvious correction."
    ),
    "name": Remedy("spelling", LossClass.SPELLING, "A name that is not published is similar to a published one."),
    "likely": Remedy(
        "spelling", LossClass.SPELLING, "The expression is valid, but authors who write it usually intend another one."
    ),
    "round": Remedy("devices", LossClass.SPELLING, "An amount is rounded up to one that Kubernetes can represent."),
    "driver": Remedy("nothing", LossClass.CLUSTER, "The driver has not published all slices that it announces."),
    "uncordon": Remedy(
        "placement", LossClass.CLUSTER, "The node has the requested devices, and only its cordon excludes it."
    ),
    "recreate": Remedy(
        "nothing", LossClass.CLUSTER, "The template is corrected already; the pod has a claim of an earlier version."
    ),
    "delete-pod": Remedy(
        "nothing", LossClass.CLUSTER, "The workload is corrected already, but keeps the pod that it created before."
    ),
    "allow": Remedy("placement", LossClass.CLUSTER, "An administrator must allow the request in the namespace."),
    "enable": Remedy("placement", LossClass.CLUSTER, "An administrator must turn on a feature for the devices."),
    "class-name": Remedy(
        "spelling", LossClass.REFERENCE, "A name in a class is corrected, which affects all other users of the class."
    ),
    "select": Remedy(
        "placement", LossClass.PLACEMENT, "The node has the requested devices, but the pod's own rules exclude it."
    ),
    "tolerate-node": Remedy("placement", LossClass.PLACEMENT, "As before, but a taint reserves the node for others."),
    "wait": Remedy("nothing", LossClass.WAIT, "Matching devices are in use; the claim fits when they are released."),
    "recover": Remedy(
        "nothing", LossClass.WAIT, "The node with the requested devices is not ready, broken or in maintenance."
    ),
    "rollout": Remedy(
        "placement", LossClass.WAIT, "The pod to be replaced holds the devices and waits for its successor."
    ),
    "more-pods": Remedy("placement", LossClass.WAIT, "The existing pods fit and wait for the rest of their gang."),
    "tolerate-device": Remedy(
        "placement", LossClass.FEWER, "The devices match, but the cause of their taint must be known first."
    ),
    "less": Remedy("devices", LossClass.FEWER, "The same kind of device: fewer of them, or a smaller amount."),
    "replicas": Remedy("devices", LossClass.FEWER, "Fewer replicas: the running ones hold the devices and do not end."),
    "smaller-gang": Remedy("devices", LossClass.FEWER, "A gang of fewer pods: those that fit."),
    "select-model": Remedy("placement", LossClass.MODEL, "Nodes with another model than the pod's rules name."),
    "other-value": Remedy("devices", LossClass.MODEL, "Devices with another value than the requested one."),
    "smaller": Remedy("devices", LossClass.MODEL, "Devices with a smaller value than the requested one."),
    "select-less": Remedy(
        "placement", LossClass.MEMORY, "Nodes with less memory per device than the pod's rules name."
    ),
    "smaller-share": Remedy("devices", LossClass.MEMORY, "The same kind of device: less of its memory than requested."),
    "less-memory": Remedy("devices", LossClass.MEMORY, "Devices with less memory than requested."),
    "smaller-model": Remedy(
        "devices", LossClass.MEMORY, "Devices with another value than the requested one, and with less memory."
    ),
    "other-class": Remedy("devices", LossClass.MEMORY, "Devices of another class."),
    "constraint": Remedy("devices", LossClass.CONSTRAINT, "Devices that do not satisfy the constraint."),
    "other-driver": Remedy(
        "devices", LossClass.CONDITION, "Devices of a class of another driver, for which a program must be written."
    ),
    "unselect": Remedy("placement", LossClass.CONDITION, "Any node: the pod's rules for nodes are dropped."),
    "unselect-hardware": Remedy(
        "placement", LossClass.CONDITION, "As before, and a rule stated devices by labels that no claim states."
    ),
    "condition": Remedy("devices", LossClass.CONDITION, "Any devices: the condition is dropped."),
    "of-class": Remedy(
        "devices", LossClass.CONDITION, "The class is changed, which affects all other users of the class."
    ),
    "leave-out": Remedy("devices", LossClass.CONDITION, "A part of the request is dropped."),
}

#: Remedies after which the pod's own rules match other nodes.
RESELECTIONS: Final = frozenset({"select", "select-model", "select-less", "unselect", "unselect-hardware"})
#: remedy -> position in the table, which decides between remedies at equal distance; smaller comes first.
POSITION: Final[Mapping[str, int]] = {name: number for number, name in enumerate(REMEDIES)}


def is_alternative(remedies: Sequence[str]) -> bool:
    """Whether changes qualify as the second remedy: a single change that keeps the kind of device.

    >>> is_alternative(["less"]), is_alternative(["less", "wait"]), is_alternative(["other-class"])
    (True, False, False)
    """
    return len(remedies) == 1 and (remedies[0] == "smaller-share" or REMEDIES[remedies[0]].loss <= LossClass.FEWER)


def distance(remedies: Iterable[str]) -> Distance:
    """The distance of remedies together, without the size of their values: the worst loss; no remedy is farthest.

    >>> distance(["less"]) < distance(["wait", "other-value"]) < distance(["condition"]) < distance([])
    True
    """
    losses = [REMEDIES[name].loss for name in remedies]
    return Distance(max(losses), len(losses)) if losses else FARTHEST
