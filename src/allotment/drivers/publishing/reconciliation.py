"""Plans of slice writes that never expose a mixture of two states of a pool.

Consumers use a pool only if the number of slices with its highest generation is the number that each of them states.
After every single write, the pool must be complete at one generation or visibly incomplete. Two kinds of plans
guarantee that:

- The generation stays if all slices of it are correct: missing slices are added, and slices with lower generations are
  updated. It also stays if a single slice changes and nothing else is to be written, since one write is atomic.
- Otherwise all slices are written with the next generation, which is incomplete until the last one exists.

A removed device always starts a new generation, so that consumers with an older view of the pool notice the change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from allotment.cluster.cached_item import CachedItem
from allotment.model.resource import ResourceSlice, ResourceSliceSpec

_INDEX = re.compile(r"([0-9a-f]{5,})-")


class MatchedSlices(NamedTuple):
    """The existing slices of a pool by index, and those that are obsolete."""

    by_index: dict[int, CachedItem[ResourceSlice]]
    obsolete: tuple[CachedItem[ResourceSlice], ...]


class WritePlan(NamedTuple):
    """The generation and the indexes of the slices to write, in ascending order."""

    generation: int
    indexes: tuple[int, ...]


def name_prefix(index: int, driver: str, node: str) -> str:
    """Return the ``generateName`` of a slice. Schedulers sort slices by name, so the index comes first."""
    return f"{index:05x}-{driver}-{node}-"


def match_slices(present: Iterable[CachedItem[ResourceSlice]], desired: Sequence[ResourceSliceSpec]) -> MatchedSlices:
    """Match slices to indexes by their name prefixes; of two with the same index, the higher generation is kept."""
    places: dict[int, CachedItem[ResourceSlice]] = {}
    obsolete: list[CachedItem[ResourceSlice]] = []
    for item in sorted(present, key=lambda item: (-_generation(item), item.name)):
        prefix = _INDEX.match(item.name)
        index = int(prefix[1], 16) if prefix else -1
        # The node of a slice is immutable.
        if 0 <= index < len(desired) and index not in places and item.spec.get("nodeName") == desired[index].node_name:
            places[index] = item
        else:
            obsolete.append(item)
    return MatchedSlices(places, tuple(obsolete))


def plan_writes(slices: MatchedSlices, wrong: frozenset[int], desired: Sequence[ResourceSliceSpec]) -> WritePlan:
    """Return the writes after the obsolete slices are deleted. ``wrong``: indexes whose slice has other content."""
    present = (*slices.by_index.values(), *slices.obsolete)
    count = len(desired)
    highest = max(map(_generation, present), default=0)
    current = {index for index, item in slices.by_index.items() if _generation(item) == highest}
    missing = frozenset(range(count)) - slices.by_index.keys()
    miscounted = {i for i in current if slices.by_index[i].spec["pool"]["resourceSliceCount"] != count}
    pending = missing | wrong | miscounted | (slices.by_index.keys() - current)
    if not pending:
        return WritePlan(highest, ())
    kept = {device.name for spec in desired for device in spec.devices or ()}
    removed = any(
        device.name not in kept
        for item in present if _generation(item) == highest for device in item.value.spec.devices or ()
    )  # fmt: skip
    if current and not miscounted and not removed and (not wrong & current or len(pending) == 1):
        return WritePlan(highest, tuple(sorted(pending)))
    return WritePlan(highest + 1, tuple(range(count)))


def _generation(item: CachedItem[ResourceSlice]) -> int:
    return int(item.spec["pool"]["generation"])
