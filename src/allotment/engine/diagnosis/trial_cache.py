"""``TrialCache``: runs the engine on scenarios and caches inventories and outcomes.

Most scenarios of a diagnosis differ only in the claims, so the inventory of one state of slices, classes and
allocations is built once.
"""

from __future__ import annotations

from allotment.engine.allocator import Allocator
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.cluster.node_selection import NodeFacts
from allotment.engine.diagnosis.scenario import Scenario
from allotment.engine.outcome import Outcome


def _state_key(scenario: Scenario) -> tuple[int, ...]:
    """The identity of everything but the claims; labels and taint rules are the same in all scenarios."""
    parts = (scenario.slices, scenario.classes, scenario.allocated, scenario.features, scenario.declared_features)
    return tuple(map(id, parts))


class TrialCache:
    """A callable from scenario to outcome, for one diagnosis: it keeps references to all its scenarios."""

    def __init__(self) -> None:
        self._allocators: dict[tuple[int, ...], tuple[Scenario, Allocator]] = {}
        self._outcomes: dict[tuple[int, ...], tuple[Scenario, Outcome]] = {}

    def inventory(self, scenario: Scenario) -> Inventory:
        """The inventory of the scenario."""
        return self._allocator(scenario).inventory

    def _allocator(self, scenario: Scenario) -> Allocator:
        key = _state_key(scenario)
        found = self._allocators.get(key)
        if found is None:
            inventory = Inventory.of(
                scenario.features,
                nodes=(NodeFacts(scenario.node, scenario.labels, scenario.declared_features),),
                slices=scenario.slices,
                classes=scenario.classes.values(),
                claims=scenario.allocated,
                taint_rules=scenario.taint_rules,
            )
            found = self._allocators[key] = (scenario, Allocator(inventory))
        return found[1]

    def __call__(self, scenario: Scenario) -> Outcome:
        """The outcome of the scenario's claims on its node."""
        key = (*_state_key(scenario), *map(id, scenario.claims))
        found = self._outcomes.get(key)
        if found is None:
            found = self._outcomes[key] = (scenario, self._allocator(scenario).allocate(scenario.node, scenario.claims))
        return found[1]
