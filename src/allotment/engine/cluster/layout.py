"""What one node offers, and the part of it that many nodes have in common.

``NodeView`` is a node's pools with their devices in the order of allocation, numbered: a *slot* is a device's place in
that order, and sets of devices are bit masks over slots. ``Layout`` is the view without names and attributes; nodes
with the same hardware share one, so that work done for one of them counts for all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from allotment.engine.cluster.devices import MAX_INTERNED, DeviceRecord, Traits
from allotment.engine.cluster.identity import DeviceID
from allotment.engine.cluster.node_selection import NodeFacts
from allotment.engine.cluster.pools import Pool, PoolStatus, device_reaches
from allotment.engine.cluster.usage import Usage
from allotment.model.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from allotment.model.resource import ResourceSlice


class PoolSpan(NamedTuple):
    """The slots of one pool, from ``start`` up to but without ``stop``."""

    status: PoolStatus
    start: int
    stop: int


class NodeCounter(NamedTuple):
    """One counter that devices of the node may draw from, and how much of it there is, in nano."""

    pool: int
    counter_set: str
    counter: str
    limit: int


#: Number of a counter and the amount drawn from it.
Uses = tuple[tuple[int, int], ...]
RecordsOf = Callable[[ResourceSlice], Sequence[DeviceRecord]]


class Layout:
    """The hardware of a node, nameless; compared by identity."""

    __slots__ = ("consumers", "counters", "number", "pools", "reach", "shareable", "size", "traits", "uses")

    def __init__(
        self,
        number: int,
        traits: tuple[Traits, ...],
        pools: tuple[PoolSpan, ...],
        counters: tuple[NodeCounter, ...],
        reach: int,
    ) -> None:
        self.number = number
        self.size = len(traits)
        self.traits = traits
        self.pools = pools
        self.counters = counters
        self.reach = reach
        """Slots whose own node selection (``perDeviceNodeSelection``) admits the node; all others are set, too."""
        index = {place[:3]: i for i, place in enumerate(counters)}
        self.uses: tuple[Uses, ...] = tuple(
            tuple((index[pool, use.counter_set, use.counter], use.amount) for use in t.counters) if counters else ()
            for pool, span in enumerate(pools)
            for t in traits[span.start : span.stop]
        )
        """Per slot: which counters it draws from, and how much."""
        self.shareable = sum(1 << i for i, t in enumerate(traits) if t.shareable)
        self.consumers = sum(1 << i for i, use in enumerate(self.uses) if use)


class LayoutTable:
    """Interns layouts."""

    def __init__(self) -> None:
        self._known: dict[object, Layout] = {}
        self._numbers = itertools.count()

    def of(
        self, traits: tuple[Traits, ...], pools: tuple[PoolSpan, ...], counters: tuple[NodeCounter, ...], reach: int
    ) -> Layout:
        """The layout made of these parts."""
        key = (tuple(t.number for t in traits), pools, counters, reach)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MAX_INTERNED:
                self._known.clear()
            found = self._known[key] = Layout(next(self._numbers), traits, pools, counters, reach)
        return found


class NodeState(NamedTuple):
    """What allocated claims hold of a node's devices."""

    in_use: int
    """Slots taken whole."""
    charged: int
    """Slots that draw from counters because they, or a share of them, are allocated."""
    consumed: tuple[tuple[int, tuple[int, ...]], ...]
    """Slot and consumed amounts, in the order of ``Traits.limits``, of devices with shares that name capacity."""
    drawn: tuple[int, ...]
    """Per counter what devices elsewhere draw from it; empty if none do."""


IDLE = NodeState(0, 0, (), ())


class NodeView:
    """A node with the pools that it sees and their devices. Made anew when slices change; its state is refreshed."""

    __slots__ = (
        "__weakref__",
        "_counts_elsewhere",
        "_only_here",
        "_state",
        "failure",
        "layout",
        "node",
        "pools",
        "records",
    )

    def __init__(
        self, node: NodeFacts, pools: tuple[Pool, ...], records: tuple[DeviceRecord, ...], layout: Layout, failure: str = ""
    ) -> None:
        self.node = node
        self.pools = pools
        self.records = records
        """The device in each slot."""
        self.layout = layout
        self.failure = failure
        """Why pools could not be gathered; then there are none."""
        self._counts_elsewhere = any(bool(pool.other_slices and pool.counter_sets) for pool in pools)
        self._state: NodeState | None = None
        self._only_here: NodeSelector | None = None

    @property
    def only_here(self) -> NodeSelector:
        """The selector that admits this node alone."""
        found = self._only_here
        if found is None:
            name = NodeSelectorRequirement(key="metadata.name", operator="In", values=(self.node.name,))
            found = self._only_here = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(name,)),))
        return found

    def forget_state(self) -> None:
        """Look again at the usage when the state is asked for next."""
        self._state = None

    def state(self, usage: Usage) -> NodeState:
        """What is allocated of the node's devices."""
        found = self._state
        if found is None:
            found = self._state = self._compute_state(usage)
        return found

    def _compute_state(self, usage: Usage) -> NodeState:
        if not usage.exclusive and not usage.shares:
            return IDLE
        exclusive, shares = usage.exclusive, usage.shares
        in_use = shared = 0
        consumed: list[tuple[int, tuple[int, ...]]] = []
        bit = 1
        for slot, record in enumerate(self.records):
            id = record.id
            if id in exclusive:
                in_use |= bit
            if shares and id in shares:
                shared |= bit
                if (amounts := usage.consumed.get(id)) is not None:
                    consumed.append((slot, tuple(amounts.get(name, 0) for name in record.traits.limits)))
            bit <<= 1
        return NodeState(
            in_use, (in_use | shared) & self.layout.consumers, tuple(consumed), self._drawn_elsewhere(usage)
        )

    def _drawn_elsewhere(self, usage: Usage) -> tuple[int, ...]:
        if not self._counts_elsewhere:
            return ()
        index = {place[:3]: i for i, place in enumerate(self.layout.counters)}
        drawn = [0] * len(index)
        for number, pool in enumerate(self.pools):
            if not pool.counter_sets:
                continue
            for slice_ in pool.other_slices:
                for device in slice_.spec.devices or ():
                    if device.consumes_counters and usage.is_allocated(DeviceID(*pool.id, device.name)):
                        for use in device.consumes_counters:
                            for name, counter in use.counters.items():
                                drawn[index[number, use.counter_set, name]] += counter.value.nano
        return tuple(drawn) if any(drawn) else ()


def available(layout: Layout, state: NodeState) -> list[int]:
    """Per counter what is left, in nano; negative where more is allocated than there is."""
    left = [place.limit for place in layout.counters]
    for counter, amount in enumerate(state.drawn):
        left[counter] -= amount
    charged = state.charged
    while charged:
        lowest = charged & -charged
        for counter, amount in layout.uses[lowest.bit_length() - 1]:
            left[counter] -= amount
        charged ^= lowest
    return left


def build_view(node: NodeFacts, pools: tuple[Pool, ...], records_of: RecordsOf, layouts: LayoutTable) -> NodeView:
    """Number the devices of the gathered pools. ``records_of`` gives a slice's devices in published order.

    ``UnusableSlice`` if a device's own node selector cannot be used: gathering stops at the first device that reaches
    the node, so that those behind it are looked at here only.
    """
    records: list[DeviceRecord] = []
    spans: list[PoolSpan] = []
    counters: list[NodeCounter] = []
    reach = -1
    for number, pool in enumerate(pools):
        start = len(records)
        for slice_ in pool.slices:
            if slice_.spec.per_device_node_selection:
                for slot, record in enumerate(records_of(slice_), len(records)):
                    if not device_reaches(node, record.device, slice_):
                        reach &= ~(1 << slot)
            records.extend(records_of(slice_))
        spans.append(PoolSpan(pool.status, start, len(records)))
        counters.extend(
            NodeCounter(number, set_name, name, counter.value.nano)
            for set_name, counter_set in sorted(pool.counter_sets.items())
            for name, counter in sorted(counter_set.counters.items())
        )
    layout = layouts.of(
        tuple(r.traits for r in records), tuple(spans), tuple(counters), reach & ((1 << len(records)) - 1)
    )
    return NodeView(node, pools, tuple(records), layout)
