"""Worlds with planted mistakes, by seed and number.

In each world the pod fits without the mistakes, and none of the mistakes alone is harmless: the pod does not fit with
it even if all nodes and pools of the noise are in order, and (unless devices in use are what it is about) if no other
pod holds a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from allotment.explanation import Answer
from tests.storm.advice.claim_mistakes import CLAIM_MISTAKES
from tests.storm.advice.cluster_mistakes import CLUSTER_MISTAKES
from tests.storm.advice.clusters import MAX_NODES, idle, random_world, without_noise
from tests.storm.advice.explanations import fits, place_of
from tests.storm.advice.mistake import Mistake
from tests.storm.advice.pod_mistakes import POD_MISTAKES, REFERENCES
from tests.storm.advice.worlds import Inapplicable, World

MISTAKES: Final = (*CLAIM_MISTAKES, *POD_MISTAKES, *CLUSTER_MISTAKES)
BY_NAME: Final = {mistake.name: mistake for mistake in MISTAKES}
_MAX_ATTEMPTS: Final = 1_000
#: Attempts with two mistakes; some cannot be made together.
_MAX_PAIRS: Final = 300
#: Every fourth world has two mistakes.
_EVERY: Final = 4


class PlantedWorld(NamedTuple):
    """A world with mistakes. ``fitting``: the world without them, and ``place`` where the pod is placed in it."""

    name: str
    world: World
    mistakes: tuple[Mistake, ...]
    fitting: World
    place: Answer


def planted_world(name: str, most: int = MAX_NODES) -> PlantedWorld:
    """The world of a name, ``SEED/NUMBER``, with at most ``most`` nodes. Numbers select the mistakes in turn."""
    number = int(name.rpartition("/")[2])
    random = Random(name)
    for attempt in range(_MAX_ATTEMPTS):
        mistakes = _choose(random, number)[: 1 if attempt > _MAX_PAIRS else 2]
        styles = frozenset.intersection(*(mistake.styles for mistake in mistakes))
        if not styles:
            continue
        world = random_world(random, random.choice(sorted(styles)), most)
        place = place_of(world)
        if place is None:
            continue
        seed = random.random()
        try:
            alone = [planted(world, (mistake,), seed) for mistake in mistakes]
            if all(map(_is_decisive, mistakes, alone)):
                wrong = alone[0] if len(alone) == 1 else planted(world, mistakes, seed)
                if len(alone) == 1 or not fits(wrong):  # one mistake may have undone the other
                    return PlantedWorld(name, wrong, mistakes, world, place)
        except Inapplicable:
            continue
    raise AssertionError(f"{name}: no world found for {[mistake.name for mistake in _choose(Random(name), number)]}")


def planted(world: World, mistakes: Sequence[Mistake], seed: float) -> World:
    """A copy of the world with these mistakes, equal for equal seeds. Raises Inapplicable."""
    for mistake in mistakes:
        world = mistake.plant(Random(seed), world.copy())
    return world


def _choose(random: Random, number: int) -> tuple[Mistake, ...]:
    first = MISTAKES[number % len(MISTAKES)]
    if (number // len(MISTAKES) + number) % _EVERY or not _is_combinable(first):
        return (first,)
    second = random.choice(
        [mistake for mistake in MISTAKES if _is_combinable(mistake) and not _is_same(mistake, first)]
    )
    # The cluster's states depend on where the pod would fit, so they are planted before mistakes of the pod.
    ordered = sorted((first, second), key=lambda mistake: mistake not in CLUSTER_MISTAKES)
    return tuple(ordered)


def _is_combinable(mistake: Mistake) -> bool:
    return bool(mistake.remedies) and not mistake.alone


def _is_same(first: Mistake, second: Mistake) -> bool:
    """Whether two mistakes cannot be made in one world: they are equal, or both in the reference to the claim."""
    return first is second or {first.name, second.name} <= REFERENCES


def _is_decisive(mistake: Mistake, wrong: World) -> bool:
    """Whether the pod does not fit with the mistake, whatever else is wrong in the cluster."""
    return not fits(wrong) and not fits(without_noise(wrong) if mistake.only_noise else idle(wrong))
