"""``Diagnoser``: the reasons why claims fit no node of a cluster, with one diagnosis per group of equivalent nodes.

Nodes are equivalent if they have the same layout, the same state, and the same values of the attributes that the claims
read in selectors or constraints; UUIDs and bus addresses that no claim reads are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from msgspec.structs import replace as altered

from allotment.engine.cluster.identity import DeviceID, PoolID
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.cluster.pools import PoolStatus
from allotment.engine.diagnosis.cause import find_cause
from allotment.engine.diagnosis.context import Cause, SharedContext, requests_of
from allotment.engine.diagnosis.funnel import compile_or_none
from allotment.engine.diagnosis.holders import held_devices
from allotment.engine.diagnosis.published_names import PublishedNames, published_names
from allotment.engine.diagnosis.reader import EVERYTHING, Reader
from allotment.engine.diagnosis.remedy_search import RemedyChanges, TrialBudget, applied, smallest_change
from allotment.engine.diagnosis.scenario import Scenario, claim_name
from allotment.engine.diagnosis.trial_cache import TrialCache
from allotment.engine.outcome import Aborted, Allocated
from allotment.engine.refusal import CODES, NO_NODES, RANK, SEARCH_GIVEN_UP, AllocationRefusal, Diagnosis, NodeReason
from allotment.engine.remedies import FARTHEST, Distance, LossClass
from allotment.model.resource import Device, ResourceClaim, ResourceSlice

#: The claims that hold a device; several if it is shared, none after they were removed.
_Holding = dict[DeviceID, list[ResourceClaim]]
#: Groups of nodes for which a change is searched, nearest first; a cluster may have hundreds of groups.
_WITH_CHANGE = 8


class Diagnoser:
    """Diagnoses claims against one inventory. Published names are read once; report new allocations to it."""

    def __init__(
        self,
        inventory: Inventory,
        allocated: Iterable[ResourceClaim] = (),
        tries: int | None = None,
        names: Callable[[], PublishedNames] | None = None,
    ) -> None:
        """``allocated`` are the claims that hold devices, so that reasons can name their pods.

        ``tries`` limits the trials for changes over all diagnoses; after that, reasons have no changes. ``names``
        returns the published names to compare with; by default those of the inventory's slices.
        """
        self._inventory = inventory
        self._budget = TrialBudget(tries)
        self._names = names
        self._holding: _Holding = {}
        self._holding_namespaces: set[str] = set()
        """The namespaces of claims that held devices at any time."""
        for claim in allocated:
            self.add_allocated(claim)

    @cached_property
    def _published(self) -> PublishedNames:
        return published_names(self._inventory.slices.values()) if self._names is None else self._names()

    @cached_property
    def _index(self) -> _SliceIndex:
        return _SliceIndex(self._inventory)

    def add_allocated(self, claim: ResourceClaim) -> None:
        """Add a claim that holds devices and is also allocated in the inventory."""
        if claim.status.allocation is None:
            return
        self._holding_namespaces.add(claim.metadata.namespace)
        for result in claim.status.allocation.devices.results:
            entry = self._holding.setdefault(DeviceID(result.driver, result.pool, result.device), [])
            if claim not in entry[-1:]:
                entry.append(claim)

    def remove_allocated(self, claim: ResourceClaim) -> None:
        """Remove a claim again that was added last of those with its devices."""
        if claim.status.allocation is None:
            return
        for result in claim.status.allocation.devices.results:
            entry = self._holding.get(DeviceID(result.driver, result.pool, result.device), [])
            if claim in entry[-1:]:
                entry.pop()

    def relevant(self, reader: Reader) -> Reader:
        """The reader restricted to namespaces that hold devices; equal results mean equal reasons."""
        return reader.within(self._holding_namespaces)

    def diagnose(
        self, claims: Sequence[ResourceClaim], nodes: Sequence[str] | None = None, reader: Reader = EVERYTHING
    ) -> Diagnosis:
        """The reasons why ``claims`` together fit none of ``nodes`` (by default all nodes of the inventory).

        Claims that hold devices are named only if the ``reader`` may see them.
        """
        inventory = self._inventory
        candidates = list(inventory.nodes) if nodes is None else list(nodes)
        if not candidates:
            return Diagnosis(headline=_no_nodes(claims, self._published))
        groups: dict[Hashable, list[str]] = {}
        read = _attributes_read(inventory, claims)
        for node in candidates:
            groups.setdefault(_group_key(inventory, node, read, self._index, self._holding), []).append(node)
        found: list[_NodeGroup] = []
        fitting: list[str] = []
        for group in groups.values():
            examined = self._examine(tuple(group), tuple(claims), reader)
            if examined is None:
                fitting.extend(group)
            else:
                found.append(examined)
        ending = {(e.cause.code, e.cause.summary) for e in found if e.ends}
        # Devices in use hide the error on a node, which has the same cause and perhaps a nearer remedy.
        found = [e._replace(ends=(e.cause.code, e.cause.summary) in ending) for e in found]
        found.sort(key=lambda e: (not e.ends, RANK[e.cause.code], e.least, -len(e.nodes)))
        with_remedies = [
            (
                e,
                smallest_change(e.scenario, e.cause, e.shared, self._budget)
                if number < _WITH_CHANGE
                else RemedyChanges(),
            )
            for number, e in enumerate(found)
        ]
        with_remedies.sort(key=_nearness)
        if with_remedies and with_remedies[0][0].ends:
            with_remedies = _without_errors(with_remedies)
        rows = tuple(
            NodeReason(
                nodes=e.nodes,
                refused=altered(e.cause.refused(e.nodes[0]), changes=remedies.changes, otherwise=remedies.otherwise),
            )
            for e, remedies in with_remedies
        )
        headline = rows[0].refused if rows else _no_reason(claims)
        return Diagnosis(headline=headline, nodes=rows, fitting=tuple(fitting))

    def _examine(
        self, nodes: tuple[str, ...], claims: tuple[ResourceClaim, ...], reader: Reader
    ) -> _NodeGroup | None:  # fmt: skip
        """Diagnose the first of a group of equivalent nodes; None if the claims fit."""
        inventory, node = self._inventory, nodes[0]
        slices = self._index.slices(node)
        scenario = Scenario(
            features=inventory.features,
            node=node,
            labels=inventory.nodes[node].labels,
            slices=slices,
            classes=inventory.classes,
            allocated=_holding_claims(self._holding, slices),
            claims=claims,
            taint_rules=tuple(inventory.taint_rules.values()),
            declared_features=inventory.nodes[node].declared_features,
        )
        in_use = held_devices(scenario.allocated, reader).whole
        shared = SharedContext(self._published, TrialCache(), reader, in_use)
        outcome = shared.trials(scenario)
        if isinstance(outcome, Allocated):
            return None
        why = find_cause(scenario, shared)
        # If an error on a node ends the whole attempt, it is the headline, even if other nodes are nearer to fitting.
        # Selectors are not evaluated on devices in use, but freeing those would only cause the error.
        ends = (isinstance(outcome, Aborted) and outcome.fatal) or why.code in (
            "selector-fails", "derived-attribute-fails", "capacity-not-representable"
        )  # fmt: skip
        return _NodeGroup(nodes, ends, why, scenario, shared)


class _NodeGroup(NamedTuple):
    """A group of equivalent nodes with its cause. ``ends``: Kubernetes gives up on all nodes at one of these."""

    nodes: tuple[str, ...]
    ends: bool
    cause: Cause
    scenario: Scenario
    shared: SharedContext

    def ends_after(self, remedy: RemedyChanges) -> bool:
        """Whether Kubernetes still gives up on all nodes at one of these after the changes."""
        outcome = self.shared.trials(applied(remedy.edits, self.scenario))
        return isinstance(outcome, Aborted) and outcome.fatal

    @property
    def least(self) -> Distance:
        """The distance of the nearest candidate change, whether or not it is sufficient."""
        return min((change.distance for change in self.cause.candidates), default=FARTHEST)


def _nearness(pair: tuple[_NodeGroup, RemedyChanges]) -> tuple[bool, int, int, int, int, Distance, int, int, str, int]:
    """Sort key of the reasons, nearest first.

    A remedy that loses nothing precedes one that keeps what was intended, that one precedes one that selects other
    devices, with less memory last, and that one precedes a dropped condition; nodes without a remedy come last. A node
    that needs fewer changes precedes those that need more, such as one that also lacks slices; then the cause decides,
    how often the requested memory is halved, the distance of the remedy, the number of devices that match or that the
    remedy selects, the name of the selected value, and the number of nodes. If the claims fit the idle node, or may
    fit, what was intended is kept, whatever the remedy.
    """
    group, remedy = pair
    rank, loss = RANK[group.cause.code], remedy.distance.loss
    kept = rank <= RANK[SEARCH_GIVEN_UP] or loss <= LossClass.FEWER
    losses = (LossClass.MODEL, LossClass.MEMORY, LossClass.CONDITION)
    tiers = (loss <= LossClass.CLUSTER, kept, *(loss <= most for most in losses), True)
    free = remedy.devices * len(group.nodes)
    value = remedy.changes[0].text if remedy.devices else ""
    halvings = max((round(edit.size) for edit in remedy.edits if edit.remedy == "less-memory"), default=0)
    order = (not group.ends, tiers.index(True), max(remedy.distance.edits, 1), rank, halvings)
    return (*order, remedy.distance, -_found(group.cause), -free, value, -len(group.nodes))


def _without_errors(found: list[tuple[_NodeGroup, RemedyChanges]]) -> list[tuple[_NodeGroup, RemedyChanges]]:
    """The reasons if an error ends the attempt; the first one has the nearest remedy after which no node ends it, or
    none.

    The remedy may be that of another node: a node whose devices cause the error is not the one where the claims were
    meant to fit. If the attempt ends at that node, too, its reason comes first.
    """
    ending = [group for group, _ in found if group.ends]
    remedies = sorted((pair for pair in found if pair[1].edits), key=lambda pair: pair[1].distance)
    nearest = next((pair for pair in remedies if not any(group.ends_after(pair[1]) for group in ending)), None)
    if nearest is not None and nearest[0].ends:
        return [nearest, *(pair for pair in found if pair is not nearest)]
    return [(found[0][0], nearest[1] if nearest is not None else RemedyChanges()), *found[1:]]


def _found(cause: Cause) -> int:
    """The number of matching devices if there are too few, otherwise 0."""
    return len(cause.traces[0].left) if cause.code == "too-few-devices" and cause.traces else 0


def diagnose(
    inventory: Inventory,
    claims: Sequence[ResourceClaim],
    allocated: Iterable[ResourceClaim] = (),
    nodes: Sequence[str] | None = None,
) -> Diagnosis:
    """`Diagnoser.diagnose` for a single diagnosis."""
    return Diagnoser(inventory, allocated).diagnose(claims, nodes)


def _no_nodes(claims: Sequence[ResourceClaim], names: PublishedNames) -> AllocationRefusal:
    summary = (
        "the cluster has no nodes"
        if names.slices
        else ("the cluster has no nodes and no ResourceSlices, so no devices are known")
    )
    notes = () if names.slices else ("Names in selectors cannot be checked without ResourceSlices.",)
    return AllocationRefusal(
        code="driver-missing",
        summary=summary,
        claim=claim_name(claims[0]) if claims else "",
        notes=notes,
        kubernetes=NO_NODES,
    )


def _no_reason(claims: Sequence[ResourceClaim]) -> AllocationRefusal:
    return AllocationRefusal(
        code="not-explained",
        summary="the claims fit on every node when the allocation is repeated",
        claim=claim_name(claims[0]) if claims else "",
        kubernetes=CODES["not-explained"].kubernetes,
    )


class _SliceIndex:
    """Index of the slices that affect what a node sees: all slices of every pool of which it sees a slice."""

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
        """The pools that affect what the node sees."""
        visible = (pool.id for pool in self._inventory.view(node).pools)
        return list(dict.fromkeys([*self._by_node.get(node, ()), *self._everywhere, *visible]))

    def slices_of(self, pool: PoolID) -> Sequence[ResourceSlice]:
        """All slices of a pool."""
        return self._by_pool[pool]

    def slices(self, node: str) -> tuple[ResourceSlice, ...]:
        """All slices of the pools that affect what the node sees."""
        return tuple(s for pool in self.pools(node) for s in self._by_pool[pool])


def _holding_claims(holding: _Holding, slices: Sequence[ResourceSlice]) -> tuple[ResourceClaim, ...]:
    """The claims that hold devices of these slices."""
    found: dict[int, ResourceClaim] = {}
    for slice_ in slices:
        for device in slice_.spec.devices or ():
            for claim in holding.get(DeviceID(slice_.spec.driver, slice_.spec.pool.name, device.name), ()):
                found[id(claim)] = claim
    return tuple(found.values())


#: Full names of attributes; None means that whole devices are read.
_Reads = frozenset[str] | None


def _attributes_read(inventory: Inventory, claims: Sequence[ResourceClaim]) -> _Reads:
    """The attributes that selectors and constraints of the claims read."""
    found: set[str] = set()
    for claim in claims:
        for constraint in claim.spec.devices.constraints:
            for attribute in (constraint.match_attribute, constraint.distinct_attribute):
                if attribute:
                    found.add(attribute)
        for _, spec in requests_of(claim):
            class_ = inventory.classes.get(spec.device_class_name)
            if spec.derived_attributes and inventory.features.enabled("DRADerivedAttributes"):
                return None  # Values of derived attributes are shown with all devices that have them.
            for selector in (*(class_.spec.selectors if class_ else ()), *spec.selectors):
                program = compile_or_none(selector.cel.expression if selector.cel else "", inventory.features)
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


def _group_key(inventory: Inventory, node: str, read: _Reads, index: _SliceIndex, holding: _Holding) -> Hashable:
    """The group key of a node: nodes with equal keys have the same reasons."""
    view = inventory.view(node)
    values = tuple(_values(record.device, record.id.driver, read) for record in view.records)
    usable = {pool.id for pool in view.pools if pool.status is PoolStatus.USABLE}
    ignored = tuple(_unusable(index.slices_of(pool), read, holding) for pool in index.pools(node) if pool not in usable)
    return (view.layout.number, view.state(inventory.usage), values, ignored, view.failure)


def _unusable(slices: Sequence[ResourceSlice], read: _Reads, holding: _Holding) -> Hashable:
    """The relevant part of an unusable pool, which the layout of a node does not contain."""
    newest = max(slice_.spec.pool.generation for slice_ in slices)
    return tuple(
        (slice_.spec.pool.generation == newest, slice_.spec.pool.resource_slice_count, _devices(slice_, read, holding))
        for slice_ in slices
    )


def _devices(slice_: ResourceSlice, read: _Reads, holding: _Holding) -> Hashable:
    """The relevant part of the devices of a slice."""
    driver, pool = slice_.spec.driver, slice_.spec.pool.name
    return tuple(
        (
            _values(device, driver, read),
            tuple(capacity.value.nano for capacity in device.capacity.values()),
            bool(holding.get(DeviceID(driver, pool, device.name))),
        )
        for device in slice_.spec.devices or ()
    )


def _values(device: Device, driver: str, read: _Reads) -> Hashable:
    attributes = device.attributes
    if read is None:
        return frozenset(attributes.items())
    return (driver, *(attributes.get(full) or attributes.get(bare) for full, bare in _keys(driver, read)))


@lru_cache(maxsize=64)
def _keys(driver: str, read: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """The names of attributes, each with the one that the driver may use instead (see `constraints.find_attribute`)."""
    return tuple((name, name.removeprefix(f"{driver}/")) for name in read)
