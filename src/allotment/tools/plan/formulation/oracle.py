"""What one machine holds, exactly: room for pods, pods that keep apart, and devices by the engine, pod after pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from allotment.packing.problem import Load
from allotment.tools.plan.formulation.candidate_nodes import Place
from allotment.tools.plan.offerings.hypothetical_nodes import Sequenced
from allotment.tools.plan.offerings.templates import UNDECIDED


class Truth:
    """`packing.problem.Holds` for bins that are places. Answers are kept.

    ``plain``: by bin and kind, what an item takes of the plain resources; ``steps``: by bin and kind, the number of its
    steps; ``weights``: by kind, in which order items are tried where a layout is still to be cut.
    """

    def __init__(
        self,
        bins: Sequence[Place],
        free: Sequence[tuple[int, ...]],
        plain: Sequence[Sequence[tuple[int, ...]]],
        steps: Sequence[Sequence[int]],
        weights: Sequence[Sequence[int]],
        conflicts: Mapping[int, frozenset[int]],
    ) -> None:
        self._bins = bins
        self._free = free
        self._plain = plain
        self._steps = steps
        self._weights = weights
        self._conflicts = conflicts
        self._known: dict[tuple[int, Load], bool] = {}

    def __call__(self, bin: int, load: Load, /) -> bool:
        """Whether the machine holds the load."""
        key = (bin, load)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._holds(bin, load)
        return found

    def _holds(self, bin: int, load: Load) -> bool:
        return (
            self._has_room(bin, load)
            and not (self._conflicts and self._clash(load))
            and self._bins[bin].room.holds(self.sequence(bin, load))
        )

    def _has_room(self, bin: int, load: Load) -> bool:
        free, plain = self._free[bin], self._plain[bin]
        if len(load) == 1:
            kind, count = load[0]
            return all(count * n <= left for n, left in zip(plain[kind], free, strict=True))
        taken = [(plain[kind], count) for kind, count in load]
        return all(sum(n[i] * count for n, count in taken) <= left for i, left in enumerate(free))

    def _clash(self, load: Load) -> bool:
        kinds = {kind for kind, _ in load}
        return any(
            (count > 1 and kind in others) or not others.isdisjoint(kinds - {kind})
            for kind, count in load
            if (others := self._conflicts.get(kind)) is not None
        )

    def sequence(self, bin: int, load: Load) -> Sequenced:
        """The load's steps in the order in which the scheduler comes to them.

        Where GPUs are still to be cut the largest come first: the layout is made for all of them at once.
        """
        steps = self._steps[bin]
        ordered = load
        if self._bins[bin].mode == UNDECIDED:
            weights = self._weights[bin]
            ordered = tuple(sorted(load, key=lambda one: -weights[one[0]]))
        found: list[tuple[int, int]] = []
        for kind, count in ordered:
            step = steps[kind]
            if step < 0:
                continue
            if found and found[-1][0] == step:
                found[-1] = (step, found[-1][1] + count)
            else:
                found.append((step, count))
        return tuple(found)
