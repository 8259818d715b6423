"""``Allocator``: allocates claims on one node, or on the first node that fits.

Requests repeat: thousands of pods have a handful of shapes, thousands of nodes a handful of patterns. All work is
therefore cached by shape: the compiled requests, the verdict for every pattern and state, and (in `placement`) the
verdict of every node. The most recently used shapes are kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from operator import add
from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from allotment.engine.claims.requests import ClaimCompiler, ClaimShape
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.cluster.layout import NO_MEMBERS, NodeState, NodeView, common_groups
from allotment.engine.outcome import AbortCause, Aborted, Allocated, Outcome, Unfit
from allotment.engine.placement import NodeVerdicts, NotPlaced, Placed
from allotment.engine.results import ResultAssembler
from allotment.engine.search.depth_first import STEP_LIMIT, Search
from allotment.engine.search.pattern import Pattern, PatternTable
from allotment.engine.search.verdict import NoFit, Solution, Stop, Undecided, Verdict
from allotment.model.resource import DeviceClass, ResourceClaim

#: Shapes in the cache.
MAX_SHAPES: Final = 128
#: Verdicts in the cache per shape.
_MAX_VERDICTS: Final = 20_000


class ShapeCache:
    """Compiled requests, patterns and verdicts of one shape."""

    def __init__(
        self, shape: ClaimShape, claims: Sequence[ResourceClaim], inventory: Inventory, step_limit: int
    ) -> None:
        features = inventory.features
        self.shape = shape
        self.classes: tuple[tuple[str, DeviceClass | None], ...] = tuple(
            (name, inventory.classes.get(name)) for name in _class_names(claims)
        )
        self._inventory = inventory
        self._step_limit = step_limit
        self._table = PatternTable(shape, features)
        self.assembler = ResultAssembler(shape, [claim.spec.devices for claim in claims], self._table.matcher, features)
        # A view is dropped when its node changes, and its pattern goes with it.
        self._patterns: WeakKeyDictionary[NodeView, Pattern] = WeakKeyDictionary()
        self._verdicts: dict[tuple[int, NodeState], Verdict] = {}
        self.nodes = NodeVerdicts(inventory, self.verdict)

    def is_current(self) -> bool:
        """Whether the DeviceClasses are still those that the shape was compiled with."""
        classes = self._inventory.classes
        return all(classes.get(name) is class_ for name, class_ in self.classes)

    def pattern(self, view: NodeView) -> Pattern:
        """The pattern of a node for this shape."""
        found = self._patterns.get(view)
        if found is None:
            found = self._patterns[view] = self._table.of(view)
        return found

    def verdict(self, view: NodeView) -> Verdict:
        """Whether and how the shape fits on a node in its current state."""
        return self.verdict_in(view, view.state(self._inventory.usage))

    def verdict_in(self, view: NodeView, state: NodeState) -> Verdict:
        """Whether and how the shape would fit on a node in the given state."""
        if view.failure:
            return Stop(AbortCause.NODE_SELECTION, 0)
        pattern = self.pattern(view)
        in_use = state.in_use & pattern.relevant
        if in_use != state.in_use:
            state = state._replace(in_use=in_use)
        key = (pattern.number, state)
        found = self._verdicts.get(key)
        if found is None:
            if len(self._verdicts) >= _MAX_VERDICTS:
                self._verdicts.clear()
            found = self._verdicts[key] = Search(self.shape, pattern, state, self._step_limit).run()
        return found

    def state_after(self, view: NodeView, state: NodeState, solution: Solution) -> NodeState:
        """The node's state as if ``solution``, found in ``state``, were allocated; nothing is allocated.

        The result equals that of `Inventory.allocate`, in a hundredth of the time. Planning uses it for hypothetical
        nodes.
        """
        pattern, layout = self.pattern(view), view.layout
        in_use, charged = state.in_use, state.charged
        groups = list(state.groups) or [NO_MEMBERS] * len(layout.group_sets)
        consumed: dict[int, tuple[int, ...]] = {}
        for picks in solution.picks:
            for subrequest, slot in picks:
                if self.shape.subrequests[subrequest].admin:
                    continue
                bit = 1 << slot
                charged |= bit & layout.consumers
                for number, mask in layout.groups[slot]:
                    groups[number] = common_groups(groups[number], mask)
                if not layout.shareable & bit:
                    in_use |= bit
                elif amounts := pattern.profiles[slot].amounts[subrequest]:
                    before = consumed.get(slot) or dict(state.consumed).get(slot)
                    consumed[slot] = tuple(map(add, before, amounts)) if before else amounts
        after = NodeState(in_use, charged, state.consumed, state.drawn)
        if consumed:
            after = after._replace(consumed=tuple(sorted({**dict(state.consumed), **consumed}.items())))
        if any(mask != NO_MEMBERS for mask in groups):
            after = after._replace(groups=tuple(groups))
        return after


def _class_names(claims: Sequence[ResourceClaim]) -> list[str]:
    names: dict[str, None] = {}
    for claim in claims:
        for request in claim.spec.devices.requests:
            for spec in (request.exactly, *request.first_available):
                if spec is not None:
                    names[spec.device_class_name] = None
    return list(names)


def _sequential_share_ids() -> Callable[[], str]:
    """A generator of share IDs for results that are not stored: in UUID format, unique per allocator."""
    numbers = itertools.count(1)
    return lambda: f"00000000-0000-4000-8000-{next(numbers):012x}"


class Allocator:
    """Allocates claims from an inventory without changing it: the caller records results with `Inventory.allocate`."""

    def __init__(
        self, inventory: Inventory, share_id: Callable[[], str] | None = None, step_limit: int = STEP_LIMIT
    ) -> None:
        """``share_id`` returns the UUID of a new share; by default shares are numbered from one."""
        self.inventory = inventory
        self._share_id = share_id or _sequential_share_ids()
        self._step_limit = step_limit
        self._compiler = ClaimCompiler(inventory.features)
        self._caches: dict[bytes, ShapeCache] = {}
        self._encoder = msgspec.json.Encoder(enc_hook=str)

    def cache_for(self, claims: Sequence[ResourceClaim]) -> ShapeCache:
        """The cache of the shape of these claims, created if necessary."""
        key = self._encoder.encode([claim.spec for claim in claims])
        found = self._caches.pop(key, None)
        if found is None or not found.is_current():
            shape = self._compiler.shape(tuple(claims), self.inventory.classes)
            found = ShapeCache(shape, claims, self.inventory, self._step_limit)
            if len(self._caches) >= MAX_SHAPES:
                del self._caches[next(iter(self._caches))]
        self._caches[key] = found  # the most recent is last
        return found

    def allocate(self, node: str, claims: Sequence[ResourceClaim], *, prefer_last: bool = False) -> Outcome:
        """Allocate a pod's claims, in their order, on one node as Kubernetes does; ``KeyError`` if it is unknown.

        ``prefer_last``: use the devices that come last in Kubernetes' order if the same alternatives can be satisfied
        there, to avoid conflicts with another scheduler, which takes the first ones.
        """
        cache = self.cache_for(claims)
        view = self.inventory.view(node)
        verdict = cache.verdict(view)
        if prefer_last and isinstance(verdict, Solution):
            verdict = self._prefer_last(cache, view, verdict)
        return self._outcome(cache, view, verdict, claims)

    def _prefer_last(self, cache: ShapeCache, view: NodeView, first: Solution) -> Solution:
        state = view.state(self.inventory.usage)
        free = cache.pattern(view).relevant & ~state.in_use
        count = max(sum(map(len, first.picks)), 1)
        while free.bit_count() > count:
            front = free
            for _ in range(count):  # exclude all but the last ``count`` slots
                front ^= 1 << (front.bit_length() - 1)
            found = cache.verdict_in(view, state._replace(in_use=state.in_use | front))
            if isinstance(found, Solution) and found.chosen == first.chosen:
                return found
            count *= 2
        return first

    def place(self, claims: Sequence[ResourceClaim], start: int = 0, among: int = -1) -> Placed | NotPlaced | Aborted:
        """The first node, from index ``start`` with wrap-around, on which the claims fit.

        ``among`` is a bit mask of the node indexes to consider (see `Inventory.node_mask`); -1 for all.
        """
        cache = self.cache_for(claims)
        found = cache.nodes.first(start, among)
        if found is None:
            return NotPlaced(len(self.inventory.nodes), cache.nodes.undecided(among))
        index, verdict = found
        node = self.inventory.node_at(index)
        assert node is not None
        outcome = self._outcome(cache, self.inventory.view(node), verdict, claims)
        if isinstance(outcome, Aborted):
            return outcome
        assert isinstance(outcome, Allocated)
        return Placed(node, index, outcome.results)

    def _outcome(self, cache: ShapeCache, view: NodeView, verdict: Verdict, claims: Sequence[ResourceClaim]) -> Outcome:
        keys = [claim.key for claim in claims]
        if isinstance(verdict, Solution):
            results = cache.assembler.results(view, verdict, keys, self._share_id)
            return results if isinstance(results, Aborted) else Allocated(results)
        if isinstance(verdict, NoFit):
            if verdict.invalid_pool:
                why = "invalid resource pools were encountered"
                return Aborted(why, fatal=False, cause=AbortCause.POOL_INVALID)
            return Unfit()
        if isinstance(verdict, Undecided):
            return cache.assembler.undecided(verdict, keys)
        if view.failure:
            return Aborted(view.failure, fatal=True, cause=AbortCause.NODE_SELECTION)
        return cache.assembler.aborted(view, verdict, keys)


def allocate(inventory: Inventory, node: str, claims: Sequence[ResourceClaim]) -> Outcome:
    """Allocate a pod's claims on one node as Kubernetes does, without a cache for later calls."""
    return Allocator(inventory).allocate(node, claims)
