"""What worlds are about: each theme sets what holds for its worlds, and changes what was drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Final

from tests.kube.differing.worlds.drawing import Drawing
from tests.kube.differing.worlds.of_devices import counters, lists, readiness, same_pools, shares, taints
from tests.kube.differing.worlds.of_pods import admin, claims, extended, groups, neighbours, priorities
from tests.kube.differing.worlds.whole import new_world as mixed
from tests.kube.differing.worlds.world import World

#: A little of everything, and then one thing after the other, in the order of the seeds.
THEMES: Final[Mapping[str, Callable[[Drawing], World]]] = MappingProxyType({
    "mixed": mixed, "claims": claims, "lists": lists, "counters": counters, "same-pools": same_pools,
    "shares": shares, "taints": taints, "admin": admin, "extended": extended, "neighbours": neighbours,
    "priorities": priorities, "groups": groups, "readiness": readiness,
})  # fmt: skip


def drawn(random: Random, name: str, theme: str) -> World:
    """A world of a theme; the names of its objects begin with ``name``."""
    return THEMES[theme](Drawing(random, name))
