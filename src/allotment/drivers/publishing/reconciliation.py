"""Which slices of a pool must be written, and at which generation, so that nobody ever takes a mixture for the pool.

A consumer takes a pool only while as many slices of its highest generation are there as each of them says. So what is
written must, after every single write, be complete at one generation or visibly incomplete. Two ways of writing keep
that:

- The generation stays when all that there is of it is right: missing slices are added to it, and lower ones raised.
  It stays, too, when one slice changes and nothing else is to be done, for one write is one moment.
- Else all slices are written anew with the next generation, which is incomplete until the last is there.

A device that is gone always starts a new generation, so that whoever remembers the pool sees that it is another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from allotment.cluster.cached_item import Item
from allotment.model.resource import ResourceSlice, ResourceSliceSpec

_INDEX = re.compile(r"([0-9a-f]{5,})-")


class MatchedSlices(NamedTuple):
    """Slices that are there: those that have a place in the pool (by index), and those that have none."""

    by_index: dict[int, Item[ResourceSlice]]
    obsolete: tuple[Item[ResourceSlice], ...]


class WritePlan(NamedTuple):
    """What to write, lowest index first, and at which generation."""

    generation: int
    indexes: tuple[int, ...]


def name_prefix(index: int, driver: str, node: str) -> str:
    """``generateName`` of a slice. Schedulers take slices in the order of their names, so the index comes first."""
    return f"{index:05x}-{driver}-{node}-"


def match_slices(present: Iterable[Item[ResourceSlice]], wanted: Sequence[ResourceSliceSpec]) -> MatchedSlices:
    """Slices to places by the index that their names begin with; of two for one place the higher generation."""
    places: dict[int, Item[ResourceSlice]] = {}
    obsolete: list[Item[ResourceSlice]] = []
    for item in sorted(present, key=lambda item: (-_generation(item), item.name)):
        found = _INDEX.match(item.name)
        index = int(found[1], 16) if found else -1
        # The node of a slice cannot be changed.
        if 0 <= index < len(wanted) and index not in places and item.spec.get("nodeName") == wanted[index].node_name:
            places[index] = item
        else:
            obsolete.append(item)
    return MatchedSlices(places, tuple(obsolete))


def plan_writes(slices: MatchedSlices, wrong: frozenset[int], wanted: Sequence[ResourceSliceSpec]) -> WritePlan:
    """What to write when the obsolete slices are deleted. ``wrong``: places whose slice holds something else."""
    present = (*slices.by_index.values(), *slices.obsolete)
    count = len(wanted)
    highest = max(map(_generation, present), default=0)
    current = {index for index, item in slices.by_index.items() if _generation(item) == highest}
    missing = frozenset(range(count)) - slices.by_index.keys()
    miscounted = {i for i in current if slices.by_index[i].spec["pool"]["resourceSliceCount"] != count}
    to_do = missing | wrong | miscounted | (slices.by_index.keys() - current)
    if not to_do:
        return WritePlan(highest, ())
    kept = {device.name for spec in wanted for device in spec.devices or ()}
    gone = any(
        device.name not in kept
        for item in present if _generation(item) == highest for device in item.value.spec.devices or ()
    )  # fmt: skip
    if current and not miscounted and not gone and (not wrong & current or len(to_do) == 1):
        return WritePlan(highest, tuple(sorted(to_do)))
    return WritePlan(highest + 1, tuple(range(count)))


def _generation(item: Item[ResourceSlice]) -> int:
    return int(item.spec["pool"]["generation"])
