"""The engine's face: allocate claims on one node, or on the first node that fits.

What pods ask for repeats: thousands of pods, a handful of shapes; thousands of nodes, a handful of patterns. So all
work is kept by shape: the compiled requests, the verdict for every pattern and state that came up, and (in
`placement`) what is known of each node. The most recent shapes are kept, the others are forgotten.
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
from allotment.engine.cluster.layout import NodeState, NodeView
from allotment.engine.outcome import AbortCause, Aborted, Allocated, Outcome, Unfit
from allotment.engine.placement import NodeVerdicts, NotPlaced, Placed
from allotment.engine.results import ResultAssembler
from allotment.engine.search.depth_first import STEP_LIMIT, Search
from allotment.engine.search.pattern import Pattern, PatternTable
from allotment.engine.search.verdict import NoFit, Solution, Stop, Undecided, Verdict
from allotment.model.resource import DeviceClass, ResourceClaim

#: Shapes whose work is kept.
SHAPES: Final = 128
#: Verdicts that are kept per shape.
_VERDICTS: Final = 20_000


class Work:
    """All that is known about one shape."""

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
        self.assembler = ResultAssembler(
            shape, [claim.spec.devices for claim in claims], self._table.examiner, features
        )NodeVerdicts
        # A view is dropped when its node changes, and its pattern goes with it.
        self._patterns: WeakKeyDictionary[NodeView, Pattern] = WeakKeyDictionary()
        self._verdicts: dict[tuple[int, NodeState], Verdict] = {}
        self.nodes = Nodes(inventory, self.verdict)

    def is_current(self) -> bool:
        """Whether the classes are still those that the shape was compiled with."""
        classes = self._inventory.classes
        return all(classes.get(name) is class_ for name, class_ in self.classes)

    def pattern(self, view: NodeView) -> Pattern:
        """How the shape sees a node."""
        found = self._patterns.get(view)
        if found is None:
            found = self._patterns[view] = self._table.of(view)
        return found

    def verdict(self, view: NodeView) -> Verdict:
        """Whether and how the shape fits on a node now."""
        return self.verdict_in(view, view.state(self._inventory.usage))

    def verdict_in(self, view: NodeView, state: NodeState) -> Verdict:
        """Whether and how the shape would fit on a node in some other state than the present one."""
        if view.failure:
            return Stop(AbortCause.NODE_SELECTION, 0)
        pattern = self.pattern(view)
        in_use = state.in_use & pattern.relevant
        if in_use != state.in_use:
            state = state._replace(in_use=in_use)
        key = (pattern.number, state)
        found = self._verdicts.get(key)
        if found is None:
            if len(self._verdicts) >= _VERDICTS:
                self._verdicts.clear()
            found = self._verdicts[key] = Search(self.shape, pattern, state, self._step_limit).run()
        return found

    def state_after(self, view: NodeView, state: NodeState, solution: Solution) -> NodeState:
        """The node's state once a solution that was found in ``state`` is booked, without booking it.

        It says what `Inventory.allocate` of the results would lead to, in a hundredth of the time: planning asks it of
        nodes that are only thought of.
        """
        pattern, layout = self.pattern(view), view.layout
        in_use, charged = state.in_use, state.charged
        consumed: dict[int, tuple[int, ...]] = {}
        for picks in solution.picks:
            for ask, slot in picks:
                if self.shape.subrequests[ask].admin:
                    continue
                bit = 1 << slot
                charged |= bit & layout.consumers
                if not layout.shareable & bit:
                    in_use |= bit
                elif amounts := pattern.profiles[slot].amounts[ask]:
                    before = consumed.get(slot) or dict(state.consumed).get(slot)
                    consumed[slot] = tuple(map(add, before, amounts)) if before else amounts
        if not consumed:
            return NodeState(in_use, charged, state.consumed, state.drawn)
        return NodeState(in_use, charged, tuple(sorted({**dict(state.consumed), **consumed}.items())), state.drawn)


def _class_names(claims: Sequence[ResourceClaim]) -> list[str]:
    names: dict[str, None] = {}
    for claim in claims:
        for request in claim.spec.devices.requests:
            for spec in (request.exactly, *request.first_available):
                if spec is not None:
                    names[spec.device_class_name] = None
    return list(names)


def _numbered() -> Callable[[], str]:
    """Share IDs for whoever does not keep the results: UUIDs in form, unique per allocator."""
    numbers = itertools.count(1)
    return lambda: f"00000000-0000-4000-8000-{next(numbers):012x}"


class Allocator:
    """Allocates claims from an inventory. It books nothing: `Inventory.allocate` does, when the caller decides so."""

    def __init__(
        self, inventory: Inventory, share_id: Callable[[], str] | None = None, step_limit: int = STEP_LIMIT
    ) -> None:
        """``share_id`` makes the UUID of each new share; without it they are numbered from one."""
        self.inventory = inventory
        self._share_id = share_id or _numbered()
        self._step_limit = step_limit
        self._compiler = ClaimCompiler(inventory.features)
        self._works: dict[bytes, Work] = {}
        self._encoder = msgspec.json.Encoder(enc_hook=str)

    def work(self, claims: Sequence[ResourceClaim]) -> Work:
        """What is known about the shape of these claims."""
        key = self._encoder.encode([claim.spec for claim in claims])
        found = self._works.pop(key, None)
        if found is None or not found.is_current():
            shape = self._compiler.shape(tuple(claims), self.inventory.classes)
            found = Work(shape, claims, self.inventory, self._step_limit)
            if len(self._works) >= SHAPES:
                del self._works[next(iter(self._works))]
        self._works[key] = found  # the most recent is last
        return found

    def allocate(self, node: str, claims: Sequence[ResourceClaim], *, from_behind: bool = False) -> Outcome:
        """Kubernetes' answer for a pod's claims, in their order, on one node; ``KeyError`` if it is not known.

        ``from_behind``: with the devices that come last in Kubernetes' order where as good an answer can be had there,
        out of the way of whoever begins in front.
        """
        work = self.work(claims)
        view = self.inventory.view(node)
        verdict = work.verdict(view)
        if from_behind and isinstance(verdict, Solution):
            verdict = self._from_behind(work, view, verdict)
        return self._outcome(work, view, verdict, claims)

    def _from_behind(self, work: Work, view: NodeView, usual: Solution) -> Solution:
        state = view.state(self.inventory.usage)
        free = work.pattern(view).relevant & ~state.in_use
        count = max(sum(map(len, usual.picks)), 1)
        while free.bit_count() > count:
            front = free
            for _ in range(count):  # leave out all but the last few
                front ^= 1 << (front.bit_length() - 1)
            found = work.verdict_in(view, state._replace(in_use=state.in_use | front))
            if isinstance(found, Solution) and found.chosen == usual.chosen:
                return found
            count *= 2
        return usual

    def place(self, claims: Sequence[ResourceClaim], start: int = 0, among: int = -1) -> Placed | NotPlaced | Aborted:
        """The first node, from place ``start`` on and around, on which the claims fit.

        ``among`` is a bit mask of places to look at (see `Inventory.places_of`); -1 for all.
        """
        work = self.work(claims)
        found = work.nodes.first(start, among)
        if found is None:
            return NotPlaced(len(self.inventory.nodes), work.nodes.undecided(among))
        place, verdict = found
        node = self.inventory.node_at(place)
        assert node is not None
        outcome = self._outcome(work, self.inventory.view(node), verdict, claims)
        if isinstance(outcome, Aborted):
            return outcome
        assert isinstance(outcome, Allocated)
        return Placed(node, place, outcome.results)

    def _outcome(self, work: Work, view: NodeView, verdict: Verdict, claims: Sequence[ResourceClaim]) -> Outcome:
        keys = [claim.key for claim in claims]
        if isinstance(verdict, Solution):
            results = work.assembler.results(view, verdict, keys, self._share_id)
            return results if isinstance(results, Aborted) else Allocated(results)
        if isinstance(verdict, NoFit):
            if verdict.invalid_pool:
                why = "invalid resource pools were encountered"
                return Aborted(why, fatal=False, cause=AbortCause.POOL_INVALID)
            return Unfit()
        if isinstance(verdict, Undecided):
            return work.assembler.undecided(verdict, keys)
        if view.failure:
            return Aborted(view.failure, fatal=True, cause=AbortCause.NODE_SELECTION)
        return work.assembler.aborted(view, verdict, keys)


def allocate(inventory: Inventory, node: str, claims: Sequence[ResourceClaim]) -> Outcome:
    """Kubernetes' answer for a pod's claims on one node, with nothing kept for the next time."""
    return Allocator(inventory).allocate(node, claims)
