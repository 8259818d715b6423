"""``Mistake``: a row of the tables of mistakes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple, TypeAlias

from tests.storm.advice.worlds import World

#: Plants a mistake in a world, which may be changed in place. Raises Inapplicable.
Plant: TypeAlias = Callable[[Random, World], World]


class Mistake(NamedTuple):
    """A mistake of a user, or a state of a cluster, because of which a pod is pending.

    ``codes``: the codes that name it, all equally good; ``hidden``: those for a reader of the pod's namespace only, if
    they differ. ``remedies``: the kinds of the changes that repair it (`engine.remedies`); empty if no change of an
    object repairs it. ``styles``: the styles of requests in which it can be made. ``only_noise``: devices that become
    free may also help, as for a cordoned node whose neighbours are full. ``changes_devices``: the remedy may select
    other devices than the author meant. ``alone``: it is never planted together with another one.
    """

    name: str
    styles: frozenset[str]
    plant: Plant
    codes: frozenset[str]
    remedies: frozenset[str]
    hidden: frozenset[str] = frozenset()
    only_noise: bool = False
    changes_devices: bool = False
    alone: bool = False
