"""The devices of one node (``NodeView``) and the part that equivalent nodes share (``Layout``).

``NodeView`` is a node's pools with their devices in allocation order. A *slot* is a device's position in that order,
and sets of devices are bit masks over slots. ``Layout`` is the view without names and attributes; nodes with the same
hardware share one, so that work done for one of them is reused for all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from allotment.engine.cluster.devices import MAX_INTERNED, DeviceRecord, Traits
from allotment.engine.cluster.identity import DeviceID
from allotment.engine.cluster.node_selection import NodeFacts
from allotment.engine.cluster.pools import Pool, PoolStatus, device_reaches
from allotment.engine.cluster.usage import Usage
from allotment.model.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from allotment.model.resource import ResourceSlice


class PoolSpan(NamedTuple):
    """The slots of one pool, from ``start`` up to but excluding ``stop``."""

    status: PoolStatus
    start: int
    stop: int


class NodeCounter(NamedTuple):
    """A counter that devices of the node may consume, and its total in nano units."""

    pool: int
    counter_set: str
    counter: str
    limit: int


class GroupSet(NamedTuple):
    """A counter set whose devices may be allocated together only if their compatibility groups agree (KEP-5941)."""

    pool: int
    counter_set: str


#: Pairs of a counter's number and the amount consumed.
Uses = tuple[tuple[int, int], ...]
#: Pairs of a group set's number and a bit mask of groups, see `Layout.groups`.
Groups = tuple[tuple[int, int], ...]
#: The groups of a device without groups: an element that all such devices have in common.
WITHOUT_GROUPS: Final = 1
#: The common groups of no devices.
NO_MEMBERS: Final = -1
RecordsOf = Callable[[ResourceSlice], Sequence[DeviceRecord]]


class Layout:
    """The hardware of a node without names and attributes; compared by identity."""

    __slots__ = (
        "consumers",
        "counters",
        "group_bits",
        "group_sets",
        "groups",
        "number",
        "pools",
        "reach",
        "shareable",
        "size",
        "supported",
        "traits",
        "uses",
    )

    def __init__(
        self,
        number: int,
        traits: tuple[Traits, ...],
        pools: tuple[PoolSpan, ...],
        counters: tuple[NodeCounter, ...],
        group_sets: tuple[GroupSet, ...],
        reach: int,
        supported: int,
    ) -> None:
        self.number = number
        self.size = len(traits)
        self.traits = traits
        self.pools = pools
        self.counters = counters
        self.reach = reach
        """Slots of devices that the node can use; only ``perDeviceNodeSelection`` clears bits."""
        self.supported = supported
        """Slots of devices whose skipped node operations the node supports; nearly always all."""
        index = {counter[:3]: i for i, counter in enumerate(counters)}
        self.uses: tuple[Uses, ...] = tuple(
            tuple((index[pool, use.counter_set, use.counter], use.amount) for use in t.counters) if counters else ()
            for pool, span in enumerate(pools)
            for t in traits[span.start : span.stop]
        )
        """Per slot: the counters that the device consumes, and the amounts."""
        self.shareable = sum(1 << i for i, t in enumerate(traits) if t.shareable)
        self.consumers = sum(1 << i for i, use in enumerate(self.uses) if use)
        self.group_sets = group_sets
        self.group_bits: tuple[dict[str, int], ...] = tuple({} for _ in group_sets)
        """Per group set: the bit of each group that a device of the node has."""
        self.groups: tuple[Groups, ...] = ((),) * len(traits)
        """Per slot: the group sets of the device, and its groups in each as a bit mask."""
        if group_sets:
            numbers = {of: i for i, of in enumerate(group_sets)}
            self.groups = tuple(
                tuple(
                    (numbers[of], group_mask(groups, self.group_bits[numbers[of]]))
                    for of, groups in ((GroupSet(pool, member.counter_set), member.groups) for member in t.groups)
                    if of in numbers
                )
                for pool, span in enumerate(pools)
                for t in traits[span.start : span.stop]
            )


def group_mask(groups: Sequence[str], bits: dict[str, int]) -> int:
    """The compatibility groups of a device as a bit mask; ``bits`` has the bit of each group, new ones are added.

    >>> bits: dict[str, int] = {}
    >>> group_mask(["a", "b"], bits), group_mask(["b"], bits), group_mask([], bits)
    (6, 4, 1)
    """
    mask = 0
    for name in groups:
        mask |= bits.setdefault(name, WITHOUT_GROUPS << len(bits) + 1)
    return mask or WITHOUT_GROUPS


class LayoutTable:
    """Interns layouts: nodes with equal hardware get the same object."""

    def __init__(self) -> None:
        self._known: dict[object, Layout] = {}
        self._numbers = itertools.count()

    def of(
        self,
        traits: tuple[Traits, ...],
        pools: tuple[PoolSpan, ...],
        counters: tuple[NodeCounter, ...],
        group_sets: tuple[GroupSet, ...],
        reach: int,
        supported: int,
    ) -> Layout:
        """The layout with these parts."""
        key = (tuple(t.number for t in traits), pools, counters, group_sets, reach, supported)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MAX_INTERNED:
                self._known.clear()
            number = next(self._numbers)
            found = self._known[key] = Layout(number, traits, pools, counters, group_sets, reach, supported)
        return found


class NodeState(NamedTuple):
    """The usage of a node's devices by allocated claims."""

    in_use: int
    """Slots of exclusively allocated devices."""
    charged: int
    """Slots that consume counters because the device, or a share of it, is allocated."""
    consumed: tuple[tuple[int, tuple[int, ...]], ...]
    """Slot and consumed amounts, in the order of ``Traits.limits``, of devices whose shares name capacity."""
    drawn: tuple[int, ...]
    """Per counter the amount that the pool's devices outside of this node consume; empty if there are none."""
    groups: tuple[int, ...] = ()
    """Per group set the groups that all allocated devices have in common, see `common_groups`; empty if no device with
    groups is allocated."""


IDLE = NodeState(0, 0, (), ())


def common_groups(common: int, groups: int) -> int:
    """The groups that devices have in common after a device with ``groups`` is added.

    If devices with and without groups are allocated, although the allocator prevents that, the earlier ones count.

    >>> common_groups(NO_MEMBERS, 0b0110), common_groups(0b0110, 0b1100), common_groups(0b0110, WITHOUT_GROUPS)
    (6, 4, 6)
    """
    if common == NO_MEMBERS:
        return groups
    return common if WITHOUT_GROUPS in (common, groups) else common & groups


class NodeView:
    """A node with the pools that it sees and their devices; rebuilt when slices change."""

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
        self,
        node: NodeFacts,
        pools: tuple[Pool, ...],
        records: tuple[DeviceRecord, ...],
        layout: Layout,
        failure: str = "",
    ) -> None:
        self.node = node
        self.pools = pools
        self.records = records
        """The device in each slot."""
        self.layout = layout
        self.failure = failure
        """The error if pools could not be gathered; there are no pools then."""
        self._counts_elsewhere = any(bool(pool.other_slices and pool.counter_sets) for pool in pools)
        self._state: NodeState | None = None
        self._only_here: NodeSelector | None = None

    @property
    def only_here(self) -> NodeSelector:
        """A selector that matches only this node."""
        found = self._only_here
        if found is None:
            name = NodeSelectorRequirement(key="metadata.name", operator="In", values=(self.node.name,))
            found = self._only_here = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(name,)),))
        return found

    def forget_state(self) -> None:
        """Invalidate the cached state."""
        self._state = None

    def state(self, usage: Usage) -> NodeState:
        """The node's allocation state, from the cache if it is valid."""
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
            in_use,
            (in_use | shared) & self.layout.consumers,
            tuple(consumed),
            self._drawn_elsewhere(usage),
            self._groups_in_use(usage),
        )

    def _groups_in_use(self, usage: Usage) -> tuple[int, ...]:
        layout = self.layout
        if not layout.group_sets:
            return ()
        common = [NO_MEMBERS] * len(layout.group_sets)
        for record, groups in zip(self.records, layout.groups, strict=True):
            if groups and usage.is_allocated(record.id):
                for number, mask in groups:
                    common[number] = common_groups(common[number], mask)
        numbers = {of: i for i, of in enumerate(layout.group_sets)}
        for pool_number, pool in enumerate(self.pools):
            for slice_ in pool.other_slices:
                for device in slice_.spec.devices or ():
                    if not device.consumes_counters or not usage.is_allocated(DeviceID(*pool.id, device.name)):
                        continue
                    for use in device.consumes_counters:
                        number = numbers.get(GroupSet(pool_number, use.counter_set), -1)
                        if number >= 0:
                            # Groups that no device of this node has are irrelevant here.
                            bits = layout.group_bits[number]
                            mask = sum(bits.get(name, 0) for name in set(use.compatibility_groups))
                            mask = mask if use.compatibility_groups else WITHOUT_GROUPS
                            common[number] = common_groups(common[number], mask)
        return tuple(common) if any(mask != NO_MEMBERS for mask in common) else ()

    def _drawn_elsewhere(self, usage: Usage) -> tuple[int, ...]:
        if not self._counts_elsewhere:
            return ()
        index = {counter[:3]: i for i, counter in enumerate(self.layout.counters)}
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
    """The remaining amount of each counter in nano units; negative if more is allocated than exists."""
    left = [counter.limit for counter in layout.counters]
    for number, amount in enumerate(state.drawn):
        left[number] -= amount
    charged = state.charged
    while charged:
        lowest = charged & -charged
        for number, amount in layout.uses[lowest.bit_length() - 1]:
            left[number] -= amount
        charged ^= lowest
    return left


def excluded_by_groups(layout: Layout, common: Sequence[int]) -> int:
    """The slots whose compatibility groups exclude them next to devices with these common groups (see `NodeState`).

    They include shareable devices in use, which keep the groups that they have: further shares are not excluded.
    """
    excluded = 0
    if common:
        for slot, members in enumerate(layout.groups):
            if members and not all(common[number] & mask for number, mask in members):
                excluded |= 1 << slot
    return excluded


def build_view(
    node: NodeFacts, pools: tuple[Pool, ...], records_of: RecordsOf, layouts: LayoutTable, *, can_skip: bool = True
) -> NodeView:
    """Assign slots to the devices of the gathered pools. ``records_of`` returns a slice's devices in published order.

    ``can_skip``: whether the node supports devices whose preparation is skipped (DRAOptionalNodeOperations).
    Raises ``UnusableSlice`` if a device's own node selector is invalid. Gathering stops at the first device that
    reaches the node, so the selectors of the devices after it are evaluated only here.
    """
    records: list[DeviceRecord] = []
    spans: list[PoolSpan] = []
    counters: list[NodeCounter] = []
    group_sets: list[GroupSet] = []
    reach = supported = -1
    for number, pool in enumerate(pools):
        start = len(records)
        for slice_ in pool.slices:
            if slice_.spec.per_device_node_selection:
                for slot, record in enumerate(records_of(slice_), len(records)):
                    if not device_reaches(node, record.device, slice_):
                        reach &= ~(1 << slot)
            first = len(records)
            records.extend(records_of(slice_))
            if slice_.spec.skip_node_operations and not can_skip:
                supported &= ~((1 << len(records)) - (1 << first))
        spans.append(PoolSpan(pool.status, start, len(records)))
        counters.extend(
            NodeCounter(number, set_name, name, counter.value.nano)
            for set_name, counter_set in sorted(pool.counter_sets.items())
            for name, counter in sorted(counter_set.counters.items())
        )
        if pool.counter_sets:
            group_sets.extend(GroupSet(number, name) for name in _sets_with_groups(pool, records_of))
    every = (1 << len(records)) - 1
    layout = layouts.of(
        tuple(r.traits for r in records),
        tuple(spans),
        tuple(counters),
        tuple(group_sets),
        reach & every,
        supported & every,
    )
    return NodeView(node, pools, tuple(records), layout)


def _sets_with_groups(pool: Pool, records_of: RecordsOf) -> list[str]:
    """The counter sets in which any device of the pool, on any node, has compatibility groups, by name."""
    return sorted(
        {
            member.counter_set
            for slice_ in (*pool.slices, *pool.other_slices)
            for record in records_of(slice_)
            for member in record.traits.groups
            if member.groups
        }
    )
