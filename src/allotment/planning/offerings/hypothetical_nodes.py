"""Hypothetical nodes, which are in no inventory, and the engine's verdicts on device allocations on them.

A load is a sequence of claim sets, one per item, allocated in order as the scheduler does. The node's state after each
sequence is cached, so that one more item costs one allocation, and a repeated check costs a look-up. Machines with
equal hardware in the same mode share these states, regardless of price and provider.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, TypeAlias

from allotment.engine.allocator import Allocator, ShapeCache
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.cluster.layout import NodeState, NodeView
from allotment.engine.search.pattern import Pattern
from allotment.engine.search.verdict import Solution, Verdict
from allotment.model.features import Features
from allotment.model.resource import DeviceClass, ResourceClaim, ResourceSlice

#: Pairs of claim set number and count, in the order of allocation; adjacent pairs differ in number.
LoadSequence: TypeAlias = tuple[tuple[int, int], ...]

_UNKNOWN: Final = object()


class HypotheticalCluster:
    """An inventory of nodes with slices, and its allocator."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.allocator = Allocator(inventory)
        self._classes: Mapping[str, DeviceClass] = {}

    def view_of(self, node: str, labels: Mapping[str, str], slices: Callable[[], Sequence[ResourceSlice]]) -> NodeView:
        """The view of a node. ``slices`` is called to create the node if it is not in the inventory."""
        if node not in self.inventory.nodes:
            self.inventory.put_node(node, labels)
            for slice_ in slices():
                self.inventory.put_slice(slice_)
        return self.inventory.view(node)

    def shape_cache(self, claims: Sequence[ResourceClaim], classes: Mapping[str, DeviceClass]) -> ShapeCache:
        """The engine's cache for the shape of these claims, with these classes."""
        if self._classes is not classes:
            for name in [name for name in self.inventory.classes if name not in classes]:
                self.inventory.remove_class(name)
            for name, slice_ in classes.items():
                if self.inventory.classes.get(name) is not slice_:
                    self.inventory.put_class(slice_)
            self._classes = classes
        return self.allocator.cache_for(claims)


#: Clusters that are not in use, most recent last. Taking and returning one is atomic, so that plans on several threads
#: never share a cluster.
_IDLE: Final[dict[Features, list[HypotheticalCluster]]] = {}


def template_cluster(features: Features, owner: object) -> HypotheticalCluster:
    """A cluster of templates for exclusive use by the owner during its lifetime.

    Templates are equal for every plan, so that later plans reuse the cached results of earlier ones.
    """
    idle = _IDLE.setdefault(features, [])
    try:
        cluster = idle.pop()
    except IndexError:
        cluster = HypotheticalCluster(Inventory(features))
    weakref.finalize(owner, idle.append, cluster)
    return cluster


class ClaimShapes:
    """Shapes of claims by number, sets of shapes by number, and the engine's cache for each shape and cluster."""

    def __init__(self, classes: Mapping[str, DeviceClass]) -> None:
        self.classes = classes
        self.shapes: list[tuple[ResourceClaim, ...]] = []
        self.sets: list[tuple[int, ...]] = []
        self._shape_numbers: dict[Hashable, int] = {}
        self._set_numbers: dict[tuple[int, ...], int] = {}
        self._caches: dict[tuple[int, int], ShapeCache] = {}

    def shape_number(self, key: Hashable, claims: tuple[ResourceClaim, ...]) -> int:
        """The number of the shape of these claims; ``key`` is equal for claims with equal specs."""
        number = self._shape_numbers.get(key)
        if number is None:
            number = self._shape_numbers[key] = len(self.shapes)
            self.shapes.append(claims)
        return number

    def set_number(self, shapes: tuple[int, ...]) -> int:
        """The number of this set of shapes, in order."""
        number = self._set_numbers.get(shapes)
        if number is None:
            number = self._set_numbers[shapes] = len(self.sets)
            self.sets.append(shapes)
        return number

    def shape_cache(self, cluster: HypotheticalCluster, shape: int) -> ShapeCache:
        """The engine's cache for a shape on a cluster."""
        key = (id(cluster), shape)
        found = self._caches.get(key)
        if found is None:
            found = self._caches[key] = cluster.shape_cache(self.shapes[shape], self.classes)
        return found


class NodeDevices:
    """The devices of one node, and the states after hypothetical allocations."""

    __slots__ = ("_after", "_states", "claim_shapes", "cluster", "initial", "view")

    def __init__(self, cluster: HypotheticalCluster, view: NodeView, claim_shapes: ClaimShapes) -> None:
        self.cluster = cluster
        self.view = view
        self.claim_shapes = claim_shapes
        self.initial: NodeState = view.state(cluster.inventory.usage)
        self._states: dict[LoadSequence, NodeState | None] = {}
        self._after: dict[tuple[NodeState, int], NodeState | None] = {}

    def holds(self, sequence: LoadSequence) -> bool:
        """Whether the claims of every item in the sequence find devices."""
        return not sequence or self.state(sequence) is not None

    def state(self, sequence: LoadSequence) -> NodeState | None:
        """The state after a sequence; None if the claims of one item find no devices."""
        known = self._states
        found = known.get(sequence, _UNKNOWN)
        if found is not _UNKNOWN:
            assert found is None or isinstance(found, NodeState)
            return found
        longer_sequences: list[LoadSequence] = []
        prefix = sequence
        while prefix and prefix not in known:
            longer_sequences.append(prefix)
            step, count = prefix[-1]
            prefix = prefix[:-1] if count == 1 else (*prefix[:-1], (step, count - 1))
        state: NodeState | None = known[prefix] if prefix else self.initial
        for longer in reversed(longer_sequences):
            if state is not None:
                state = self._next(state, longer[-1][0])
            known[longer] = state
        return state

    def _next(self, state: NodeState, claim_set: int) -> NodeState | None:
        key = (state, claim_set)
        found = self._after.get(key, _UNKNOWN)
        if found is _UNKNOWN:
            after: NodeState | None = state
            for shape in self.claim_shapes.sets[claim_set]:
                if after is not None:
                    after = self.after(after, shape)
            self._after[key] = after
            return after
        assert found is None or isinstance(found, NodeState)
        return found

    def after(self, state: NodeState, shape: int) -> NodeState | None:
        """The state after allocating one pod's claims; None if they find no devices."""
        cache = self.claim_shapes.shape_cache(self.cluster, shape)
        verdict = cache.verdict_in(self.view, state)
        return cache.state_after(self.view, state, verdict) if isinstance(verdict, Solution) else None

    def verdict(self, shape: int, state: NodeState | None = None) -> Verdict:
        """The engine's verdict on one pod's claims in a state, by default the initial one."""
        return self.claim_shapes.shape_cache(self.cluster, shape).verdict_in(
            self.view, self.initial if state is None else state
        )

    def pattern(self, shape: int) -> Pattern:
        """The pattern of a shape on the node."""
        return self.claim_shapes.shape_cache(self.cluster, shape).pattern(self.view)
