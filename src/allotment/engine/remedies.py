"""What may help, in the order in which it is told: two at most, each confirmed by the engine.

Whoever waits is told first what asks nothing of them, then what changes only where a pod runs, then what corrects the
writing, and last what changes the thing that is asked for: another device, a smaller one, fewer of them. A second
remedy is a single change, of something else than the first one changes; never to another kind of device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

#: What a remedy changes for whoever asks.
Changes: TypeAlias = Literal["nothing", "where", "writing", "what"]


class Remedy(NamedTuple):
    """What it changes, and why it stands where it does."""

    changes: Changes
    why: str


REMEDIES: Final[Mapping[str, Remedy]] = {
    "wait": Remedy("nothing", "The devices are the right ones, and others have them: when those end it fits as it is."),
    "driver": Remedy("nothing", "The driver has not published all that it announces; nobody's manifest is wrong."),
    "rollout": Remedy(
        "where", "The devices are held by the pod that is to be replaced, and that waits for its successor."
    ),
    "select": Remedy("where", "The node has the devices as they are asked for; the pod itself keeps away from it."),
    "tolerate-node": Remedy("where", "The same; but somebody keeps the node for certain pods, and may mean it."),
    "uncordon": Remedy("where", "The same; but somebody closed the node to all, and it is theirs to open."),
    "tolerate-device": Remedy("where", "The devices are the right ones; why they are tainted is to be known first."),
    "allow": Remedy("where", "Nothing of it is to be written in another way; an administrator has to let it in."),
    "slip": Remedy("writing", "What does not compile has one reading that does."),
    "name": Remedy("writing", "A name, a type or a side that nobody publishes, and one that is nearly it."),
    "likely": Remedy("writing", "It says something, and is mostly written by those who mean the other."),
    "less": Remedy("what", "The same kind of device: fewer of them, or a smaller amount."),
    "replicas": Remedy("what", "Fewer pods of the same kind: those that run hold the devices, and do not end."),
    "other-value": Remedy("what", "Devices of another sort than the one that is named."),
    "other-class": Remedy("what", "Devices of another class."),
    "constraint": Remedy("what", "Devices that do not belong together."),
    "condition": Remedy("what", "Any devices: what was asked of them is dropped."),
    "of-class": Remedy("what", "The class is changed, and with it what all others get by it."),
    "leave-out": Remedy("what", "A part of what the pod asks for is given up."),
}

#: remedy -> its turn.
TURN: Final[Mapping[str, int]] = {name: number for number, name in enumerate(REMEDIES)}


def is_alternative(remedies: Sequence[str]) -> bool:
    """Whether changes are worth telling as the second remedy: a single one, to no other kind of device.

    >>> is_alternative(["less"]), is_alternative(["less", "wait"]), is_alternative(["other-class"])
    (True, False, False)
    """
    return len(remedies) == 1 and TURN[remedies[0]] <= TURN["less"]


def effort(remedies: Iterable[str]) -> tuple[int, int]:
    """How much several are together: fewer come first, then those that have their turn earlier.

    >>> effort(["less"]) < effort(["wait", "name"]) < effort([])
    True
    """
    turns = [TURN[name] for name in remedies]
    return (len(turns), max(turns)) if turns else (len(TURN), 0)
