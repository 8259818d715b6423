"""One trial of a plan from the start: all pods come in the scheduler's order, each to where the plan wants it.

A pod that finds no node may find one later, since others have come: some that it must be near, or that even out a
spread. Kubernetes tries it again when its wait is over, and whether the pods behind it have had their turn by then is a
matter of seconds. So a trial can be run either way, and what comes out of both is what can be promised.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from allotment.tools.explain.report import GivenClaim
from allotment.tools.plan.formulation.problem import Question
from allotment.tools.plan.pending_pods.demand import Waiting
from allotment.tools.plan.pending_pods.grouping import Item
from allotment.tools.plan.placement.planned_nodes import Berth
from allotment.tools.plan.placement.trial import Refused, Trial

#: When those that found no node are tried again: each time that somebody found one, or when all have had their turn.
Again: TypeAlias = Literal["at once", "at last"]

_ORDER: Final = (
    "it can only come after other pods, and where it then finds a place, if at all, hangs on when it is tried again"
)


@dataclass(slots=True)
class Terms:
    """What earlier runs have taught."""

    gone: set[int]
    """Items (by identity) that nothing is bought for."""
    left_out: set[int] = field(default_factory=set)
    """Pods (by order) that do not come: nothing can be promised of them."""
    meant: dict[int, str] = field(default_factory=dict)
    """Nodes by pod (by order) that are tried first, since that is where it went at once."""


@dataclass(slots=True, eq=False)
class Turn:
    """A pod's turn. ``at``: which of its item's pods it is."""

    kind: int
    item: Item
    at: int
    pod: Waiting


class Run:
    """One trial from the start."""

    def __init__(
        self, question: Question, berths: Sequence[Berth], items: Sequence[Sequence[Item]], terms: Terms
    ) -> None:
        kube = question.demand.features.kube
        self.berths = berths
        self._question = question
        self.trial = Trial(question.demand, [berth.template(kube) for berth in berths if berth.new])
        self.seats: dict[int, tuple[str, tuple[GivenClaim, ...]]] = {}
        self.used: set[str] = set()
        self.failed: list[tuple[int, Item]] = []
        self._failed: set[int] = set()
        self._words: dict[int, Refused] = {}
        self._where: dict[int, Berth] = {}
        self._terms = terms
        self._by_name = {berth.name: berth for berth in berths}
        self._hopeless: dict[int, Refused] = {}
        """Kinds of which the first pod of one item that is gone found nothing: nor will that of the next."""
        self._lonely: list[Turn] = []
        """Those that the pods to come may help, in the order of the queue."""
        self.late: set[int] = set()
        """All that ever were such (by order), so that it matters when they are tried again."""
        self.doubtful: set[int] = set()
        """Pods (by order) that nothing is bought for, and that sit elsewhere in another order, or nowhere."""
        self.elsewhere: dict[int, str] = {}
        """Nodes of pods (by order) in another order, if it was another one."""
        self._kinds: list[tuple[int, Item]] = [(kind, item) for kind, ones in enumerate(items) for item in ones]
        self._left = [berth.expected.copy() for berth in berths]
        self._by_kind: dict[int, list[int]] = {}
        for number, berth in enumerate(berths):
            for kind in berth.expected:
                self._by_kind.setdefault(kind, []).append(number)

    def all(self, again: Again) -> None:
        """Items in the order of the first pod of each; its other pods go where the first one went, if they may.

        Where they may not just then, the scheduler takes any other node that will do.
        """
        queue = [Turn(kind, item, at, pod) for kind, item in self._kinds for at, pod in enumerate(item.pods)]
        queue.sort(key=lambda turn: turn.pod.order)
        for turn in queue:
            if turn.pod.order in self._terms.left_out:
                self._words[id(turn.item)] = Refused(_ORDER, cause="order")
                continue
            if self._take(turn):
                if again == "at once":
                    self._again()
            elif turn.pod.asked.waits_for_others:
                self.late.add(turn.pod.order)
                self._lonely.append(turn)
            else:
                self._fail(turn)
        self._again()
        for turn in self._lonely:
            self._fail(turn)

    def _again(self) -> None:
        """Pods that others may let in by coming are tried again, until no more of them find a place."""
        while (lucky := self._lucky()) is not None:
            self._lonely.remove(lucky)

    def _lucky(self) -> Turn | None:
        """The first of them that has a place now. Items of one pod that are alike are refused alike."""
        refused: set[int] = set()
        for turn in self._lonely:
            if turn.kind not in refused and self._take(turn):
                return turn
            if len(turn.item.pods) == 1:
                refused.add(turn.kind)
        return None

    def _take(self, turn: Turn) -> bool:
        """A pod takes its turn; whether it has a place now."""
        if id(turn.item) in self._failed:
            return False
        meant = self._by_name.get(self._terms.meant.get(turn.pod.order, ""))
        if meant is not None and self._sit(turn, meant):
            return True
        if id(turn.item) in self._terms.gone:
            return self._in_turn(turn)
        known = self._where.get(id(turn.item))
        if known is None:
            return self._first(turn)
        return self._sit(turn, known) or self._on_any(turn, but=(known,))

    def _fail(self, turn: Turn) -> None:
        item = turn.item
        if id(item) in self._terms.gone or id(item) in self._failed:
            return
        self._failed.add(id(item))
        self._where.pop(id(item), None)
        for pod in item.pods:
            if self.seats.pop(pod.order, None) is not None:
                self.trial.withdraw(pod)
        self.failed.append((turn.kind, item))

    def _in_turn(self, turn: Turn) -> bool:
        """A pod that nothing is bought for takes what it finds."""
        hopeless = self._hopeless.get(turn.kind)
        if hopeless is not None and not turn.at:
            self._words.setdefault(id(turn.item), hopeless)
            return False
        if self._on_any(turn):
            return True
        # What becomes of the other pods of an item hangs on where its first one is.
        if not turn.at and not turn.pod.asked.waits_for_others and id(turn.item) in self._words:
            self._hopeless[turn.kind] = self._words[id(turn.item)]
        return False

    def _first(self, turn: Turn) -> bool:
        """Where the packing wants its kind; where that is refused, on any machine of the plan."""
        kind = turn.kind
        wanted = [number for number in self._by_kind.get(kind, ()) if self._left[number][kind] > 0]
        for number in wanted:
            if self._sit(turn, self.berths[number]):
                self._left[number][kind] -= 1
                return True
        return self._on_any(turn, but=[self.berths[number] for number in wanted])

    def _on_any(self, turn: Turn, but: Collection[Berth] = ()) -> bool:
        """On the first machine that takes it, if it is known now whether that will."""
        names = {berth.name for berth in but}
        unknowable = self._question.is_unknowable
        return any(
            berth.name not in names and not unknowable(turn.kind, berth.place) and self._sit(turn, berth)
            for berth in self.berths
        )

    def _sit(self, turn: Turn, berth: Berth) -> bool:
        item, pod = turn.item, turn.pod
        found = self.trial.place(pod, berth.name)
        if isinstance(found, Refused):
            known = self._words.get(id(item))
            if known is None or found.weight >= known.weight:
                self._words[id(item)] = found
            return False
        self._where.setdefault(id(item), berth)
        self.seats[pod.order] = (berth.name, found)
        self.used.add(berth.name)
        return True

    def compare(self, other: Run) -> None:
        """With a run of the same in another order: who sits elsewhere there, or nowhere, has failed, or is doubtful."""
        for kind, item in self._kinds:
            unlike = [pod.order for pod in item.pods if self._node(pod) != other._node(pod)]
            if not unlike:
                continue
            self._words[id(item)] = Refused(_ORDER, cause="order")
            self.elsewhere |= {order: other.seats[order][0] for order in unlike if order in other.seats}
            if id(item) in self._terms.gone:
                self.doubtful.update(unlike)
            elif id(item) not in self._failed:
                self._failed.add(id(item))
                self.failed.append((kind, item))

    def _node(self, pod: Waiting) -> str:
        return self.seats[pod.order][0] if pod.order in self.seats else ""

    def hopeless(self, item: Item) -> bool:
        """Whether an error keeps the item from every node."""
        return id(item) in self._words and self._words[id(item)].anywhere

    def is_kept_away(self, item: Item) -> bool:
        """Whether it was other pods, on other nodes as well, that kept the item away."""
        return id(item) in self._words and self._words[id(item)].cause in ("neighbours", "spread", "order")

    def words(self) -> dict[int, Refused]:
        """Of every item that does not sit whole, why."""
        return {
            id(item): self._words.get(id(item), Refused("no node is there"))
            for _, item in self._kinds
            if any(pod.order not in self.seats for pod in item.pods)
        }

    def as_it_went(self) -> list[Berth]:
        """The berths that somebody uses, each expecting who sat there."""
        for berth in self.berths:
            berth.expected.clear()
        for kind, item in self._kinds:
            if id(item) in self._where and id(item) not in self._terms.gone:
                self._where[id(item)].expected[kind] += 1
        return [berth for berth in self.berths if berth.name in self.used or not berth.new]
