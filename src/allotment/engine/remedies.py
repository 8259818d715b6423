"""Kinds of remedies for a refused claim, in the order in which they are suggested.

First come remedies that require no change by the user, then those that only change where the pod runs, then spelling
corrections, and last those that change the requested devices: fewer, smaller or other ones. At most two remedies are
suggested, each confirmed by the engine. The second one is a single change with a different scope and never
selects another kind of device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

#: What a remedy changes in the user's objects.
ChangeScope: TypeAlias = Literal["nothing", "placement", "spelling", "devices"]


class Remedy(NamedTuple):
    """The scope of the change, and the reason for its position in the order."""

    scope: ChangeScope
    why: str


REMEDIES: Final[Mapping[str, Remedy]] = {
    "wait": Remedy("nothing", "Matching devices are in use; the claim fits unchanged when they are released."),
    "driver": Remedy("nothing", "The driver has not published all slices that it announces; no manifest is wrong."),
    "uncordon": Remedy("placement", "The node has the requested devices, and only its cordon excludes it."),
    "rollout": Remedy("placement", "The pod to be replaced holds the devices and waits for its successor."),
    "select": Remedy("placement", "The node has the requested devices, but the pod's own rules exclude it."),
    "tolerate-node": Remedy("placement", "As before, but a taint reserves the node for other pods."),
    "tolerate-device": Remedy("placement", "The devices match, but the cause of their taint must be known first."),
    "allow": Remedy("placement", "The request is valid, but an administrator must allow it in the namespace."),
    "enable": Remedy("placement", "The devices match, but an administrator must turn on a feature for them."),
    "more-pods": Remedy("placement", "The existing pods fit and wait for the rest of their gang."),
    "slip": Remedy("spelling", "An expression that does not compile has one obvious correction."),
    "name": Remedy("spelling", "A name, type or kind that is not published is similar to a published one."),
    "likely": Remedy("spelling", "The expression is valid, but authors who write it usually intend another one."),
    "less": Remedy("devices", "The same kind of device: fewer of them, or a smaller amount."),
    "replicas": Remedy("devices", "Fewer replicas: the running ones hold the devices and do not end."),
    "smaller-gang": Remedy("devices", "A gang of fewer pods: those that fit."),
    "other-value": Remedy("devices", "Devices with another value than the requested one."),
    "other-class": Remedy("devices", "Devices of another class."),
    "constraint": Remedy("devices", "Devices that do not satisfy the constraint."),
    "condition": Remedy("devices", "Any devices: the condition is dropped."),
    "of-class": Remedy("devices", "The class is changed, which affects all other users of the class."),
    "leave-out": Remedy("devices", "A part of the request is dropped."),
}

#: remedy -> position in the order; smaller comes first.
REMEDY_ORDER: Final[Mapping[str, int]] = {name: number for number, name in enumerate(REMEDIES)}


def is_alternative(remedies: Sequence[str]) -> bool:
    """Whether changes qualify as the second remedy: a single change that keeps the kind of device.

    >>> is_alternative(["less"]), is_alternative(["less", "wait"]), is_alternative(["other-class"])
    (True, False, False)
    """
    return len(remedies) == 1 and REMEDY_ORDER[remedies[0]] <= REMEDY_ORDER["less"]


def effort(remedies: Iterable[str]) -> tuple[int, int]:
    """Sort key of several remedies together: fewer come first, then those earlier in the order; none comes last.

    >>> effort(["less"]) < effort(["wait", "name"]) < effort([])
    True
    """
    positions = [REMEDY_ORDER[name] for name in remedies]
    return (len(positions), max(positions)) if positions else (len(REMEDY_ORDER), 0)
