"""Nodes that are thought of, and how much their devices hold: the engine asked about states that nobody booked.

A load is a sequence of steps, each the claims of one pod, allocated one after the other as the scheduler would. What a
node looks like after a sequence is kept, so that one more pod costs one allocation, and asking again costs a look-up.
Machines with equal hardware in the same mode share all of it, whatever they cost and whoever rents them out.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, TypeAlias

from allotment.engine.allocator import Allocator, Work
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.cluster.layout import NodeState, NodeView
from allotment.engine.search.pattern import Pattern
from allotment.engine.search.verdict import Solution, Verdict
from allotment.model.features import Features
from allotment.model.resource import DeviceClass, ResourceClaim, ResourceSlice

#: Steps by number and how often, in the order of allocation; neighbours differ in number.
Sequenced: TypeAlias = tuple[tuple[int, int], ...]

_UNKNOWN: Final = object()


class Stage:
    """An inventory of nodes with slices, and the allocator that is asked about them."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.allocator = Allocator(inventory)
        self._classes: Mapping[str, DeviceClass] = {}

    def put(self, node: str, labels: Mapping[str, str], slices: Callable[[], Sequence[ResourceSlice]]) -> NodeView:
        """The view of a node, which is made of ``slices`` when it is asked for first."""
        if node not in self.inventory.nodes:
            self.inventory.put_node(node, labels)
            for one in slices():
                self.inventory.put_slice(one)
        return self.inventory.view(node)

    def work(self, claims: Sequence[ResourceClaim], classes: Mapping[str, DeviceClass]) -> Work:
        """What is known of the shape of these claims, with these classes."""
        if self._classes is not classes:
            for name in [name for name in self.inventory.classes if name not in classes]:
                self.inventory.remove_class(name)
            for name, one in classes.items():
                if self.inventory.classes.get(name) is not one:
                    self.inventory.put_class(one)
            self._classes = classes
        return self.allocator.work(claims)


#: Stages that nobody uses just now, most recent last. Taking one and giving it back are single steps, so that plans
#: on several threads never meet on one stage.
_IDLE: Final[dict[Features, list[Stage]]] = {}


def templates(features: Features, owner: object) -> Stage:
    """A stage of templates, for the owner alone as long as that lives.

    Templates are the same for every plan: whoever comes next finds those that others have asked about.
    """
    idle = _IDLE.setdefault(features, [])
    try:
        stage = idle.pop()
    except IndexError:
        stage = Stage(Inventory(features))
    weakref.finalize(owner, idle.append, stage)
    return stage


class Steps:
    """Shapes of claims and sequences of them, by number, and the engine's work for each on each stage."""

    def __init__(self, classes: Mapping[str, DeviceClass]) -> None:
        self.classes = classes
        self.shapes: list[tuple[ResourceClaim, ...]] = []
        self.steps: list[tuple[int, ...]] = []
        self._shape_numbers: dict[Hashable, int] = {}
        self._step_numbers: dict[tuple[int, ...], int] = {}
        self._works: dict[tuple[int, int], Work] = {}

    def shape(self, key: Hashable, claims: tuple[ResourceClaim, ...]) -> int:
        """The number of what these claims ask; ``key`` is equal for claims that ask the same."""
        number = self._shape_numbers.get(key)
        if number is None:
            number = self._shape_numbers[key] = len(self.shapes)
            self.shapes.append(claims)
        return number

    def of(self, shapes: tuple[int, ...]) -> int:
        """The number of this sequence of shapes."""
        number = self._step_numbers.get(shapes)
        if number is None:
            number = self._step_numbers[shapes] = len(self.steps)
            self.steps.append(shapes)
        return number

    def work(self, stage: Stage, shape: int) -> Work:
        """The engine's work for a shape on a stage."""
        key = (id(stage), shape)
        found = self._works.get(key)
        if found is None:
            found = self._works[key] = stage.work(self.shapes[shape], self.classes)
        return found


class DeviceRoom:
    """What the devices of one node hold, from a state on."""

    __slots__ = ("_after", "_known", "initial", "stage", "steps", "view")

    def __init__(self, stage: Stage, view: NodeView, steps: Steps) -> None:
        self.stage = stage
        self.view = view
        self.steps = steps
        self.initial: NodeState = view.state(stage.inventory.usage)
        self._known: dict[Sequenced, NodeState | None] = {}
        self._after: dict[tuple[NodeState, int], NodeState | None] = {}

    def holds(self, sequence: Sequenced) -> bool:
        """Whether every step of a sequence finds its devices."""
        return not sequence or self.state(sequence) is not None

    def state(self, sequence: Sequenced) -> NodeState | None:
        """What is allocated after a sequence; None if one of its steps finds no devices."""
        known = self._known
        found = known.get(sequence, _UNKNOWN)
        if found is not _UNKNOWN:
            assert found is None or isinstance(found, NodeState)
            return found
        ahead: list[Sequenced] = []
        at = sequence
        while at and at not in known:
            ahead.append(at)
            step, count = at[-1]
            at = at[:-1] if count == 1 else (*at[:-1], (step, count - 1))
        state: NodeState | None = known[at] if at else self.initial
        for longer in reversed(ahead):
            if state is not None:
                state = self._next(state, longer[-1][0])
            known[longer] = state
        return state

    def _next(self, state: NodeState, step: int) -> NodeState | None:
        key = (state, step)
        found = self._after.get(key, _UNKNOWN)
        if found is _UNKNOWN:
            after: NodeState | None = state
            for shape in self.steps.steps[step]:
                if after is not None:
                    after = self.after(after, shape)
            self._after[key] = after
            return after
        assert found is None or isinstance(found, NodeState)
        return found

    def after(self, state: NodeState, shape: int) -> NodeState | None:
        """The state once one pod's claims are allocated; None if they find no devices."""
        work = self.steps.work(self.stage, shape)
        verdict = work.verdict_in(self.view, state)
        return work.state_after(self.view, state, verdict) if isinstance(verdict, Solution) else None

    def verdict(self, shape: int, state: NodeState | None = None) -> Verdict:
        """The engine's verdict about one pod's claims, on the node as it is or in some other state."""
        return self.steps.work(self.stage, shape).verdict_in(self.view, self.initial if state is None else state)

    def pattern(self, shape: int) -> Pattern:
        """How a shape sees the node."""
        return self.steps.work(self.stage, shape).pattern(self.view)
