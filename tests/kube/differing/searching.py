"""Worlds by number until the time is over, and the smallest in which something still differs."""

from __future__ import annotations

import copy
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from allotment.engine.refusal import NO_NODES
from tests.kube.differing.judging import Difference
from tests.kube.differing.place import Place
from tests.kube.differing.worlds.themes import THEMES, drawn
from tests.kube.differing.worlds.world import World

#: How worlds are called when they are drawn.
_NAME: Final = "w00000"
#: How often a world in which something differs is played again: a defect shows every time, and what a scheduler had not
#: heard of yet, on a machine that is slow, does not.
_AGAIN: Final = 2


class Search(NamedTuple):
    """``found``: the differences by seed; ``themes``: what there was of each theme."""

    found: dict[int, list[Difference]]
    themes: dict[str, Counter[str]]


def theme_of(seed: int) -> str:
    """One theme after the other."""
    return list(THEMES)[seed % len(THEMES)]


def world_of(seed: int, theme: str = "") -> World:
    """The world of a seed, of its theme or another."""
    return drawn(Random(seed), _NAME, theme or theme_of(seed))


async def searched(
    place: Place, seeds: Sequence[int] | range, seconds: float, say: Callable[[str], None], theme: str = ""
) -> Search:
    """Worlds until the time is over; of one theme, or of all."""
    latest = time.monotonic() + seconds
    search = Search({}, {})
    for seed in seeds:
        if time.monotonic() > latest:
            break
        before, about = place.counts.copy(), theme or theme_of(seed)
        world = world_of(seed, about)
        differences = await place.played(renamed(world, _NAME, f"w{seed % 100000:05d}"))
        search.themes.setdefault(about, Counter()).update(place.counts - before)
        for again in range(_AGAIN):
            if not differences:
                break
            found = await place.played(renamed(world, _NAME, f"w{seed % 100000:05d}{again}"))
            same = {(one.kind, one.pod.rpartition("-")[2]) for one in found}
            differences = [one for one in differences if (one.kind, one.pod.rpartition("-")[2]) in same]
        if differences:
            search.found[seed] = differences
        for difference in differences:
            say(f"seed {seed}, {about}, {difference.pod}: {difference.kind}\n    {difference.told}")
    return search


def smaller(world: World) -> Iterator[World]:
    """The world without one thing: large things first."""
    tree = [world.cluster, world.pods]
    for path in sorted(_removable(tree), key=len):
        less = copy.deepcopy(tree)
        *way, last = path
        at: Any = less
        for step in way:
            at = at[step]
        del at[last]
        if less[1]:
            yield World(*less)


#: Maps of which an entry can be left out.
_MAPS: Final = {"attributes", "capacity", "counters", "requests", "labels"}
#: Fields that can be left out.
_FIELDS: Final = {
    "taints", "tolerations", "selectors", "constraints", "capacity", "count", "allocationMode", "nodeSelector",
    "affinity", "topologySpreadConstraints", "bindsToNode", "requestPolicy", "adminAccess", "extendedResourceName",
    "allowMultipleAllocations", "consumesCounters", "sharedCounters", "unschedulable", "limits", "claims",
}  # fmt: skip


def _removable(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(tree, list):
        for number, one in enumerate(tree):
            if path:
                yield (*path, number)
            yield from _removable(one, (*path, number))
    elif isinstance(tree, dict):
        for key, one in tree.items():
            if (path[-1] in _MAPS or key in _FIELDS) and key not in ("world", "stays"):
                yield (*path, key)
            yield from _removable(one, (*path, key))


def renamed(world: World, old: str, new: str) -> World:
    """The same, of another name, so that nobody takes it for the one before."""
    return World(*json.loads(json.dumps(list(world)).replace(old, new)))


async def shrunk(place: Place, world: World, kind: str, seconds: float) -> tuple[World, Difference]:
    """The smallest world found in a time with such a difference. Raises LookupError if it does not come again."""
    latest = time.monotonic() + seconds
    number = 0

    async def differs(one: World) -> Difference | None:
        nonlocal number
        number += 1
        found = await place.played(renamed(one, _NAME, f"w{number:05d}s"))
        return next((one for one in found if one.kind == kind and NO_NODES not in one.told), None)

    last = await differs(world)
    if last is None:
        raise LookupError(f"{kind}: did not come again")
    progress = True
    while progress and time.monotonic() < latest:
        progress = False
        for less in smaller(world):
            if time.monotonic() > latest:
                break
            found = await differs(less)
            if found is not None:
                world, last, progress = less, found, True
                break
    return world, last
