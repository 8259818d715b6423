"""``PreparedDiagnoses``: the diagnoses of single nodes of an inventory, kept as long as nothing that they depend on
changes: the node, its slices and the claims on their devices, the classes, the taint rules and the published names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from allotment.engine.cluster.inventory import Inventory
from allotment.engine.diagnosis.context import Cause, SharedContext
from allotment.engine.diagnosis.holders import held_devices
from allotment.engine.diagnosis.node_groups import NodeGroups
from allotment.engine.diagnosis.published_names import PublishedNames
from allotment.engine.diagnosis.reader import Reader
from allotment.engine.diagnosis.remedy_search import RemedyChanges
from allotment.engine.diagnosis.scenario import Scenario
from allotment.engine.diagnosis.trial_cache import TrialCache

#: Diagnoses that are kept.
MOST: Final = 2048
_encode = msgspec.json.Encoder(enc_hook=str).encode

#: Returns the cause in a scenario, None if its claims fit, and whether Kubernetes gives up on all nodes there.
Examine = Callable[[Scenario, SharedContext], tuple[Cause | None, bool]]


class ExaminedNode:
    """The diagnosis of a node. ``cause`` and ``ends``: see `Examine`. ``remedy``: the changes that help, None if they
    have not been searched."""

    def __init__(self, scenario: Scenario, shared: SharedContext, cause: Cause | None, *, ends: bool) -> None:
        self.scenario = scenario
        self.shared = shared
        self.cause = cause
        self.ends = ends
        self.remedy: RemedyChanges | None = None

    def is_of(self, scenario: Scenario, published: PublishedNames) -> bool:
        """Whether the diagnosis of another scenario with the same node, request, classes and rules is the same."""
        own = self.scenario
        return (
            _are_same(own.slices, scenario.slices)
            and _are_same(own.allocated, scenario.allocated)
            and own.labels == scenario.labels
            and own.declared_features == scenario.declared_features
            and self.shared.published is published
        )

    def forget_trials(self) -> None:
        """Drop the inventories of the trials, which take most of the memory."""
        self.shared = replace(self.shared, trials=TrialCache())


class PreparedDiagnoses:
    """The groups of an inventory's nodes, and the diagnoses that were found. The least recently used ones are dropped.

    Values are compared by identity.
    """

    def __init__(self, inventory: Inventory, most: int = MOST) -> None:
        """``most``: the number of diagnoses of single nodes that are kept."""
        self._most = most
        self.nodes = NodeGroups(inventory)
        self._known: dict[tuple[object, ...], tuple[ExaminedNode, tuple[object, ...]]] = {}
        self._recent: list[ExaminedNode] = []

    def examined(
        self, scenario: Scenario, published: PublishedNames, reader: Reader, examine: Examine
    ) -> ExaminedNode:  # fmt: skip
        """The diagnosis of a scenario. The published names are compared by identity."""
        rules = (*scenario.classes.values(), *scenario.taint_rules)
        requests = _encode([(claim.metadata.namespace, claim.metadata.name, claim.spec) for claim in scenario.claims])
        key = (scenario.node, requests, reader, len(scenario.taint_rules), *map(id, rules))
        found = self._known.pop(key, None)
        if found is None or not found[0].is_of(scenario, published):
            in_use = held_devices(scenario.allocated, reader).whole
            shared = SharedContext(published, TrialCache(), reader, in_use)
            cause, ends = examine(scenario, shared)
            found = ExaminedNode(scenario, shared, cause, ends=ends), rules
            self._recent.append(found[0])
        self._known[key] = found  # the most recent is last
        return found[0]

    def end(self) -> None:
        """Drop the trials of a diagnosis of all nodes, which ends, and the diagnoses that are too many."""
        while self._recent:
            self._recent.pop().forget_trials()
        while len(self._known) > self._most:
            del self._known[next(iter(self._known))]


def _are_same(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))
