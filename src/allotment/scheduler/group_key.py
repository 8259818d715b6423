"""The identity of a PodGroup or CompositePodGroup."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Level = Literal["podgroup", "compositepodgroup"]
LEVELS: Final[tuple[Level, ...]] = ("podgroup", "compositepodgroup")


class GroupKey(NamedTuple):
    """Identifies a group; the root of a hierarchy is the key of its pods in the scheduling queue."""

    level: Level
    namespace: str
    name: str
