"""The reasons of a whole cluster: one examination for all nodes that are alike, one headline for all of them.

Nodes are alike if they have the same layout, the same state, and the same values in the attributes that the claims read
(through selectors or constraints); uuids and bus addresses that nobody asks for do not tell nodes apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace as altered

from allotment.engine.claims.constraints import find_attribute
from allotment.engine.cluster.identity import DeviceID, PoolID
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.diagnosis.cause import cause
from allotment.engine.diagnosis.context import Cause, Inquiry, places
from allotment.engine.diagnosis.funnel import compiled
from allotment.engine.diagnosis.published_names import Published, published
from allotment.engine.diagnosis.remedy_search import Budget, Mending, smallest_change
from allotment.engine.diagnosis.scenario import World, claim_name
from allotment.engine.diagnosis.trial_cache import Attempts
from allotment.engine.outcome import Aborted, Allocated
from allotment.engine.refusal import CODES, NO_NODES, RANK, Diagnosis, NodeReason, Refused
from allotment.model.resource import Device, ResourceClaim, ResourceSlice

#: Groups of like nodes for which a change is sought; a cluster of hundreds of kinds gets it for the nearest ones.
_WITH_CHANGE = 8


class Diagnoser:
    """Answers for one inventory. What is published is read once; whoever allocates claims meanwhile says so."""

    def __init__(
        self,
        inventory: Inventory,
        allocated: Iterable[ResourceClaim] = (),
        tries: int | None = None,
        names: Published | None = None,
    ) -> None:
        """``allocated`` are the claims that hold devices, as objects, so that reasons can name their pods.

        ``tries`` bounds the search for changes over all questions; once they are spent, answers come without changes.
        ``names``: what a name is held against, if not against what the inventory's slices publish.
        """
        self._inventory = inventory
        self._budget = Budget(tries)
        self._names = names
        self._holding: dict[DeviceID, list[ResourceClaim]] = {}
        for claim in allocated:
            self.hold(claim)

    @cached_property
    def _published(self) -> Published:
        return self._names or published(self._inventory.slices.values())

    @cached_property
    def _index(self) -> _SliceIndex:
        return _SliceIndex(self._inventory)

    def hold(self, claim: ResourceClaim) -> None:
        """One more claim that holds devices; it is allocated in the inventory, too."""
        if claim.status.allocation is None:
            return
        for result in claim.status.allocation.devices.results:
            entry = self._holding.setdefault(DeviceID(result.driver, result.pool, result.device), [])
            if claim not in entry[-1:]:
                entry.append(claim)

    def diagnose(self, claims: Sequence[ResourceClaim], nodes: Sequence[str] | None = None) -> Diagnosis:
        """Why ``claims``, together, fit none of ``nodes`` (all of the inventory's by default)."""
        inventory = self._inventory
        candidates = list(inventory.nodes) if nodes is None else list(nodes)
        if not candidates:
            return Diagnosis(headline=_no_nodes(claims, self._published))
        groups: dict[Hashable, list[str]] = {}
        read = _reads(inventory, claims)
        for node in candidates:
            groups.setdefault(_likeness(inventory, node, read, self._index), []).append(node)
        found: list[_Examined] = []
        fitting: list[str] = []
        for alike in groups.values():
            examined = self._examine(tuple(alike), tuple(claims))
            if examined is None:
                fitting.extend(alike)
            else:
                found.append(examined)
        found.sort(key=lambda e: (not e.ends, RANK[e.cause.code], -len(e.nodes)))
        mended = [
            (e, smallest_change(e.world, e.cause, e.inquiry, self._budget) if number < _WITH_CHANGE else Mending())
            for number, e in enumerate(found)
        ]
        # Nearest first: by cause, then the easier remedy, then the more of what is asked for, then the more nodes.
        mended.sort(
            key=lambda pair: (
                not pair[0].ends, RANK[pair[0].cause.code], pair[1].effort, -_found(pair[0].cause), -len(pair[0].nodes)
            )
        )  # fmt: skip
        rows = tuple(
            NodeReason(
                nodes=e.nodes,
                refused=altered(e.cause.refused(e.nodes[0]), changes=mending.changes, otherwise=mending.otherwise),
            )
            for e, mending in mended
        )
        headline = rows[0].refused if rows else _no_reason(claims)
        return Diagnosis(headline=headline, nodes=rows, fitting=tuple(fitting))

    def _examine(self, nodes: tuple[str, ...], claims: tuple[ResourceClaim, ...]) -> _Examined | None:
        """What nodes that are alike lack, found on the first of them; None if the claims fit."""
        inventory, node = self._inventory, nodes[0]
        slices = self._index.slices(node)
        world = World(
            features=inventory.features,
            node=node,
            labels=inventory.nodes[node].labels,
            slices=slices,
            classes=inventory.classes,
            allocated=_concerned(self._holding, slices),
            claims=claims,
            taint_rules=tuple(inventory.taint_rules.values()),
        )
        inquiry = Inquiry(self._published, Attempts())
        outcome = inquiry.attempts(world)
        if isinstance(outcome, Allocated):
            return None
        why = cause(world, inquiry)
        # Where a node's error ends the whole attempt, that error is the answer, however near other nodes come. While
        # the devices are busy nothing is evaluated on them, but freeing them would only bring the error.
        ends = (isinstance(outcome, Aborted) and outcome.fatal) or why.code == "selector-fails"
        return _Examined(nodes, ends, why, world, inquiry)


def _found(cause: Cause) -> int:
    """How many devices there are where there are too few; no matter otherwise."""
    return len(cause.traces[0].left) if cause.code == "too-few-devices" and cause.traces else 0


class _Examined(NamedTuple):
    """A kind of node with its cause. ``ends``: Kubernetes gives up on all nodes when it comes to one of these."""

    nodes: tuple[str, ...]
    ends: bool
    cause: Cause
    world: World
    inquiry: Inquiry


def diagnose(
    inventory: Inventory,
    claims: Sequence[ResourceClaim],
    allocated: Iterable[ResourceClaim] = (),
    nodes: Sequence[str] | None = None,
) -> Diagnosis:
    """`Diagnoser.diagnose`, for one question."""
    return Diagnoser(inventory, allocated).diagnose(claims, nodes)


def _no_nodes(claims: Sequence[ResourceClaim], names: Published) -> Refused:
    summary = "there is no node" if names.slices else "there is no node and no ResourceSlice, so no device is known"
    notes = () if names.slices else ("Without slices nothing can be said of the names that the selectors use.",)
    return Refused(
        code="driver-missing",
        summary=summary,
        claim=claim_name(claims[0]) if claims else "",
        notes=notes,
        kubernetes=NO_NODES,
    )


def _no_reason(claims: Sequence[ResourceClaim]) -> Refused:
    return Refused(
        code="not-explained",
        summary="the engine accepts the claims on every node when asked again",
        claim=claim_name(claims[0]) if claims else "",
        kubernetes=CODES["not-explained"].kubernetes,
    )


class _SliceIndex:
    """Which slices decide what a node sees: all slices of every pool that it sees anything of."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._by_pool: dict[PoolID, list[ResourceSlice]] = {}
        self._by_node: dict[str, dict[PoolID, None]] = {}
        self._everywhere: dict[PoolID, None] = {}
        for slice_ in inventory.slices.values():
            spec = slice_.spec
            pool = PoolID(spec.driver, spec.pool.name)
            self._by_pool.setdefault(pool, []).append(slice_)
            if spec.shared_counters:
                continue
            if spec.node_name:
                self._by_node.setdefault(spec.node_name, {})[pool] = None
            else:
                self._everywhere[pool] = None

    def pools(self, node: str) -> list[PoolID]:
        """Pools that decide what the node sees."""
        seen = (pool.id for pool in self._inventory.view(node).pools)
        return list(dict.fromkeys([*self._by_node.get(node, ()), *self._everywhere, *seen]))

    def slices(self, node: str) -> tuple[ResourceSlice, ...]:
        """All slices of those pools."""
        return tuple(s for pool in self.pools(node) for s in self._by_pool[pool])


def _concerned(
    holding: Mapping[DeviceID, list[ResourceClaim]], slices: Sequence[ResourceSlice]
) -> tuple[ResourceClaim, ...]:
    """The claims that hold a device of these slices."""
    found: dict[int, ResourceClaim] = {}
    for slice_ in slices:
        for device in slice_.spec.devices or ():
            for claim in holding.get(DeviceID(slice_.spec.driver, slice_.spec.pool.name, device.name), ()):
                found[id(claim)] = claim
    return tuple(found.values())


#: Full names of attributes; None means that whole devices are read.
_Reads = frozenset[str] | None


def _reads(inventory: Inventory, claims: Sequence[ResourceClaim]) -> _Reads:
    """The attributes that selectors and constraints of the claims look at."""
    found: set[str] = set()
    for claim in claims:
        for constraint in claim.spec.devices.constraints:
            for attribute in (constraint.match_attribute, constraint.distinct_attribute):
                if attribute:
                    found.add(attribute)
        for _, asked in places(claim):
            class_ = inventory.classes.get(asked.device_class_name)
            for selector in (*(class_.spec.selectors if class_ else ()), *asked.selectors):
                program = compiled(selector.cel.expression if selector.cel else "", inventory.features)
                if program is None:
                    continue
                if program.device_paths is None:
                    return None
                for path in program.device_paths:
                    if path[0] == "attributes":
                        if len(path) < 3:
                            return None
                        found.add(f"{path[1]}/{path[2]}")
    return frozenset(found)


def _likeness(inventory: Inventory, node: str, read: _Reads, index: _SliceIndex) -> Hashable:
    """What must be equal for two nodes to have the same reasons."""
    view = inventory.view(node)
    values = tuple(_values(record.device, record.id.driver, read) for record in view.records)
    counted = {pool.id for pool in view.pools}
    ignored = sum(1 for pool in index.pools(node) if pool not in counted)
    return (view.layout.number, view.state(inventory.usage), values, ignored, view.failure)


def _values(device: Device, driver: str, read: _Reads) -> Hashable:
    if read is None:
        return tuple(sorted((key, repr(value)) for key, value in device.attributes.items()))
    found = ((name, find_attribute(device, driver, name)) for name in read)
    return (driver, frozenset((name, repr(attribute)) for name, attribute in found if attribute is not None))
