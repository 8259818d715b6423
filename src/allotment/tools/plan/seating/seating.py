"""Every pod to a machine, proven one by one; what finds no place where it was meant to be is moved, or gets one more.

A packing answers for each machine alone and for its pods in one order. Here all of them come in the scheduler's order,
with spread and affinity over all nodes. So a few may fail: they go to another machine of the plan that takes them, or
to one bought for them, and all is tried again from the start, until one run seats everybody.

Pods that the plan has nothing for wait all the same, and go wherever the scheduler lets them. So they come in their
turn as well: who finds a place has it, and whoever that was meant for is helped like others that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from allotment.tools.explain.report import GivenClaim
from allotment.tools.plan.asking.question import Question
from allotment.tools.plan.seating.machines import Berth
from allotment.tools.plan.seating.trial import Refused, Trial
from allotment.tools.plan.waiting.demand import Waiting
from allotment.tools.plan.waiting.grouping import Item

#: A machine for an item of a kind alone, beside those that there are, and in none of these zones if there are any; None
#: if no more may be bought.
Buy = Callable[[int, Item, Sequence[Berth], Collection[str]], Berth | None]


@dataclass(slots=True)
class Seated:
    """Who sits where, with what. ``words``: why an item that no machine takes was refused, by identity."""

    seats: dict[int, tuple[str, tuple[GivenClaim, ...]]] = field(default_factory=dict)
    """Node and claims by the order of the pod."""
    berths: list[Berth] = field(default_factory=list)
    words: dict[int, Refused] = field(default_factory=dict)


def seat(
    question: Question, berths: list[Berth], items: Sequence[Sequence[Item]], spare: Collection[int], buy: Buy
) -> Seated:
    """Seat these items (by kind) on the berths, which are added to where they do not suffice.

    Nothing is bought for ``spare`` ones (by identity).
    """
    gone = set(spare)
    zones: dict[int, set[str]] = {}
    while True:
        run = _Run(question, berths, items, gone)
        run.all()
        kept = run.as_it_went()
        if not run.failed and len(kept) == len(berths):
            return Seated(run.seats, [berth for berth in kept if berth.name in run.used], run.words())
        berths = kept
        # Every run buys for an item where nothing was bought for it before, or gives one up, or has machines less.
        for kind, item in run.failed:
            before = zones.setdefault(id(item), set())
            # It may be that others keep it from a zone, but from no other.
            may = run.is_kept_away(item) if before else not run.hopeless(item)
            more = buy(kind, item, berths, before) if may else None
            if more is None:
                gone.add(id(item))
            else:
                before.add(more.place.zone)
                berths.append(more)


@dataclass(slots=True, eq=False)
class _Turn:
    """A pod's turn. ``key``: equal for pods that are alike."""

    kind: int
    item: Item
    pod: Waiting
    key: tuple[int, int]


class _Run:
    """One trial from the start."""

    def __init__(
        self, question: Question, berths: list[Berth], items: Sequence[Sequence[Item]], gone: Collection[int]
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
        self._gone = gone
        self._hopeless: dict[tuple[int, int], Refused] = {}
        """Pods of kinds of which one that is gone found nothing: nor will the next."""
        self._lonely: list[_Turn] = []
        """Those that the pods to come may help, in the order of the queue."""
        self._kinds: list[tuple[int, Item]] = [(kind, item) for kind, ones in enumerate(items) for item in ones]
        self._left = [berth.expected.copy() for berth in berths]
        self._by_kind: dict[int, list[int]] = {}
        for number, berth in enumerate(berths):
            for kind in berth.expected:
                self._by_kind.setdefault(kind, []).append(number)

    def all(self) -> None:
        """Items in the order of the first pod of each; its other pods go where the first one went."""
        queue = [_Turn(kind, item, pod, (kind, at)) for kind, item in self._kinds for at, pod in enumerate(item.pods)]
        queue.sort(key=lambda turn: turn.pod.order)
        for turn in queue:
            if not self._take(turn):
                (self._lonely.append if _may_be_helped(turn.pod) else self._fail)(turn)
        self._again()

    def _again(self) -> None:
        """Pods that others may let in by coming are tried again when all have had their turn.

        Kubernetes, too, lets a pod that found no node wait for a second at least, whatever happens in the meantime.
        """
        left = [turn for turn in self._lonely if not self._take(turn)]
        while len(left) < len(self._lonely):
            self._lonely = left
            left = [turn for turn in left if not self._take(turn)]
        for turn in left:
            self._fail(turn)

    def _take(self, turn: _Turn) -> bool:
        """A pod takes its turn; whether it has a place now."""
        if id(turn.item) in self._gone:
            return self._in_turn(turn)
        if id(turn.item) in self._failed:
            return False
        known = self._where.get(id(turn.item))
        return self._sit(turn, known) if known is not None else self._first(turn)

    def _fail(self, turn: _Turn) -> None:
        item = turn.item
        if id(item) in self._gone or id(item) in self._failed:
            return
        self._failed.add(id(item))
        self._where.pop(id(item), None)
        for pod in item.pods:
            if self.seats.pop(pod.order, None) is not None:
                self.trial.withdraw(pod)
        self.failed.append((turn.kind, item))

    def _in_turn(self, turn: _Turn) -> bool:
        """A pod that nothing is bought for takes what it finds."""
        hopeless = self._hopeless.get(turn.key)
        if hopeless is not None:
            self._words.setdefault(id(turn.item), hopeless)
            return False
        question, kind = self._question, turn.kind
        if any(not question.is_unknowable(kind, berth.place) and self._sit(turn, berth) for berth in self.berths):
            return True
        if not _may_be_helped(turn.pod) and id(turn.item) in self._words:
            self._hopeless[turn.key] = self._words[id(turn.item)]
        return False

    def _first(self, turn: _Turn) -> bool:
        """Where the packing wants its kind; where that is refused, on any machine of the plan."""
        kind = turn.kind
        wanted = [number for number in self._by_kind.get(kind, ()) if self._left[number][kind] > 0]
        for number in wanted:
            if self._sit(turn, self.berths[number]):
                self._left[number][kind] -= 1
                return True
        return any(number not in wanted and self._sit(turn, berth) for number, berth in enumerate(self.berths))

    def _sit(self, turn: _Turn, berth: Berth) -> bool:
        item, pod = turn.item, turn.pod
        found = self.trial.place(pod, berth.name)
        if isinstance(found, Refused):
            known = self._words.get(id(item))
            if known is None or found.weight >= known.weight:
                self._words[id(item)] = found
            return False
        self._where[id(item)] = berth
        self.seats[pod.order] = (berth.name, found)
        self.used.add(berth.name)
        return True

    def hopeless(self, item: Item) -> bool:
        """Whether an error keeps the item from every node."""
        return id(item) in self._words and self._words[id(item)].anywhere

    def is_kept_away(self, item: Item) -> bool:
        """Whether it was other pods, on other nodes as well, that kept the item away."""
        return id(item) in self._words and self._words[id(item)].cause in ("neighbours", "spread")

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
            if id(item) in self._where and id(item) not in self._gone:
                self._where[id(item)].expected[kind] += 1
        return [berth for berth in self.berths if berth.name in self.used or not berth.new]


def _may_be_helped(pod: Waiting) -> bool:
    """Whether others could let a pod onto a node by coming: some that it must be near, or that even out a spread."""
    return bool(pod.asked.affinity) or any(one.when_unsatisfiable == "DoNotSchedule" for one in pod.asked.spread)
