"""Every pod to a machine, proven one by one; what finds no place where it was meant to be is moved, or gets one more.

A packing answers for each machine alone and for its pods in one order. Here all of them come in the scheduler's order,
with spread and affinity over all nodes. So a few may fail: they go to another machine of the plan that takes them, or
to one bought for them, and all is tried again from the start, until one run seats everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from allotment.tools.explain.report import GivenClaim
from allotment.tools.plan.demand import Waiting
from allotment.tools.plan.grouping import Item
from allotment.tools.plan.machines import Berth
from allotment.tools.plan.question import Question
from allotment.tools.plan.trial import Refused, Trial

#: A machine for an item of a kind alone, None if beside the given ones no more may be bought.
Buy = Callable[[int, Sequence[Berth]], Berth | None]


@dataclass(slots=True)
class Seated:
    """Who sits where, with what. ``words``: why an item that no machine takes was refused last, by identity."""

    seats: dict[int, tuple[str, tuple[GivenClaim, ...]]] = field(default_factory=dict)
    """Node and claims by the order of the pod."""
    berths: list[Berth] = field(default_factory=list)
    words: dict[int, str] = field(default_factory=dict)


def seat(
    question: Question, berths: list[Berth], items: Sequence[Sequence[Item]], spare: Collection[int], buy: Buy
) -> Seated:
    """Seat these items (by kind) on the berths, which are added to where they do not suffice.

    Nothing is bought for ``spare`` ones (by identity). Their pods wait all the same, and when the scheduler comes to
    one that fits somewhere it goes there, whoever was meant to: so each is tried in its turn.
    """
    gone = set(spare)
    bought: set[int] = set()
    while True:
        run = _Run(question, berths, items, gone)
        run.all()
        if not run.failed:
            return Seated(run.seats, [berth for berth in berths if berth.name in run.used], run.words())
        berths = run.as_it_went()
        # Every run buys for an item that nothing was bought for before, or gives one up: there are only so many.
        for kind, item in run.failed:
            more = buy(kind, berths) if id(item) not in bought and not run.hopeless(item) else None
            if more is None:
                gone.add(id(item))
            else:
                bought.add(id(item))
                berths.append(more)


class _Run:
    """One trial from the start."""

    def __init__(
        self, question: Question, berths: list[Berth], items: Sequence[Sequence[Item]], gone: set[int]
    ) -> None:
        kube = question.demand.features.kube
        self.berths = berths
        self._question = question
        self.trial = Trial(question.demand, [berth.template(kube) for berth in berths if berth.new])
        self.seats: dict[int, tuple[str, tuple[GivenClaim, ...]]] = {}
        self.used: set[str] = set()
        self.failed: list[tuple[int, Item]] = []
        self._words: dict[int, Refused] = {}
        self._where: dict[int, Berth] = {}
        self._gone = gone
        self._hopeless: set[tuple[int, int]] = set()
        """Pods of kinds of which one that is gone found nothing: nor will the next."""
        self._kinds: list[tuple[int, Item]] = [(kind, item) for kind, ones in enumerate(items) for item in ones]
        self._left = [berth.expected.copy() for berth in berths]
        self._by_kind: dict[int, list[int]] = {}
        for number, berth in enumerate(berths):
            for kind in berth.expected:
                self._by_kind.setdefault(kind, []).append(number)

    def all(self) -> None:
        """Items in the order of the first pod of each; its other pods go where the first one went."""
        queue: list[tuple[int, int, Item, Waiting]] = sorted(
            ((pod.order, kind, item, pod) for kind, item in self._kinds for pod in item.pods), key=lambda one: one[0]
        )
        failed: set[int] = set()
        for _, kind, item, pod in queue:
            if id(item) in self._gone:
                self._in_turn(kind, item, pod)
            elif id(item) not in failed and not self._follow(kind, item, pod):
                failed.add(id(item))
                self._withdraw(item)
                self.failed.append((kind, item))

    def _in_turn(self, kind: int, item: Item, pod: Waiting) -> None:
        """A pod that nothing is bought for takes what it finds."""
        key = (kind, item.pods.index(pod))
        known = [berth for berth in self.berths if self._question.alone(kind, berth.place).code != "run-time-only"]
        if key not in self._hopeless and not any(self._sit(item, pod, berth) for berth in known):
            self._hopeless.add(key)

    def _follow(self, kind: int, item: Item, pod: Waiting) -> bool:
        known = self._where.get(id(item))
        return self._sit(item, pod, known) if known is not None else self._first(kind, item, pod)

    def _first(self, kind: int, item: Item, pod: Waiting) -> bool:
        """Where the packing wants its kind; where that is refused, on any machine of the plan."""
        wanted = [number for number in self._by_kind.get(kind, ()) if self._left[number][kind] > 0]
        for number in wanted:
            if self._sit(item, pod, self.berths[number]):
                self._left[number][kind] -= 1
                return True
        return any(number not in wanted and self._sit(item, pod, berth) for number, berth in enumerate(self.berths))

    def _sit(self, item: Item, pod: Waiting, berth: Berth) -> bool:
        found = self.trial.place(pod, berth.name)
        if isinstance(found, Refused):
            self._words[id(item)] = found
            return False
        self._where[id(item)] = berth
        self.seats[pod.order] = (berth.name, found)
        self.used.add(berth.name)
        return True

    def _withdraw(self, item: Item) -> None:
        self._where.pop(id(item), None)
        for pod in item.pods:
            if self.seats.pop(pod.order, None) is not None:
                self.trial.withdraw(pod)

    def hopeless(self, item: Item) -> bool:
        """Whether an error keeps the item from every node."""
        return self._words[id(item)].anywhere

    def words(self) -> dict[int, str]:
        """Of every item that does not sit whole, why."""
        return {
            id(item): self._words[id(item)].text if id(item) in self._words else ""
            for _, item in self._kinds
            if any(pod.order not in self.seats for pod in item.pods)
        }

    def as_it_went(self) -> list[Berth]:
        """The berths, each expecting who sat there."""
        for berth in self.berths:
            berth.expected.clear()
        for kind, item in self._kinds:
            if id(item) in self._where and id(item) not in self._gone:
                self._where[id(item)].expected[kind] += 1
        return [berth for berth in self.berths if berth.expected or berth.name in self.used or not berth.new]
