"""Asks the engine whether a world's claims fit its node, and remembers the inventory and the answers.

A diagnosis asks many times about few worlds; most questions differ only in the claims, so the inventory of one state of
slices, classes and allocations is built once.
"""

from __future__ import annotations

from allotment.engine.allocator import Allocator
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.diagnosis.scenario import World
from allotment.engine.outcome import Outcome


class Attempts:
    """A callable from world to outcome. Kept for one diagnosis only: it holds on to every world that it has seen."""

    def __init__(self) -> None:
        self._allocators: dict[tuple[int, ...], tuple[World, Allocator]] = {}
        self._outcomes: dict[tuple[int, ...], tuple[World, Outcome]] = {}

    def inventory(self, world: World) -> Inventory:
        """The engine's state of the world."""
        return self._allocator(world).inventory

    def _allocator(self, world: World) -> Allocator:
        key = (id(world.slices), id(world.classes), id(world.allocated))
        found = self._allocators.get(key)
        if found is None:
            inventory = Inventory.of(
                world.features,
                nodes=((world.node, world.labels),),
                slices=world.slices,
                classes=world.classes.values(),
                claims=world.allocated,
                taint_rules=world.taint_rules,
            )
            found = self._allocators[key] = (world, Allocator(inventory))
        return found[1]

    def __call__(self, world: World) -> Outcome:
        """What the engine says to the world's claims on its node."""
        key = (id(world.slices), id(world.classes), id(world.allocated), *map(id, world.claims))
        found = self._outcomes.get(key)
        if found is None:
            found = self._outcomes[key] = (world, self._allocator(world).allocate(world.node, world.claims))
        return found[1]
