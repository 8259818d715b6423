"""From bins that were bought to machines with names, whose GPUs' layout is decided, and what they may still take."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from allotment.fleet.catalog.instance_type import Template
from allotment.packing.problem import Load, PackedBins
from allotment.tools.plan.formulation.candidate_nodes import Place
from allotment.tools.plan.formulation.problem import Question
from allotment.tools.plan.offerings.mig_layouts import Layout, filled, is_possible, layout_of, mode_of
from allotment.tools.plan.offerings.templates import UNDECIDED, template


@dataclass(slots=True)
class Berth:
    """A node in a plan: one that is there, or a machine to buy. ``expected``: items by kind that it is meant for."""

    name: str
    place: Place
    expected: Counter[int] = field(default_factory=Counter)
    layout: Layout = ()
    mode: str = ""

    @property
    def new(self) -> bool:
        """Whether it is to be bought."""
        return self.place.offer is not None

    def template(self, kube: str) -> Template:
        """The machine as it will be, under its name in the plan."""
        offer = self.place.offer
        assert offer is not None
        return template(offer.instance, self.mode, self.name, kube, offer.zone, offer.capacity_type)


class Names:
    """Names for machines, by type and number."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._numbers: Counter[str] = Counter()

    def of(self, place: Place) -> str:
        """A name that nobody has."""
        assert place.offer is not None
        stem = re.sub("[^a-z0-9]+", "-", place.offer.instance.name.lower()).strip("-")[:50]
        while True:
            self._numbers[stem] += 1
            name = f"{stem}-{self._numbers[stem]}"
            if name not in self._taken:
                self._taken.add(name)
                return name


def berths_of(question: Question, bought: Sequence[PackedBins], names: Names) -> list[Berth]:
    """A berth for each bin that a packing uses, and for each node that is there."""
    found: list[Berth] = []
    nodes = {bin: iter(places) for bin, places in question.nodes.items()}
    for one in bought:
        if one.bin_type in nodes:
            load = dict(one.load)
            found += [Berth(p.name, p, Counter(load)) for p in islice(nodes[one.bin_type], one.count)]
            continue
        place = question.bins[one.bin_type]
        layouts = _layouts(question, one.bin_type, one.load)
        for _ in range(one.count):
            found.append(Berth(names.of(place), place, Counter(dict(one.load)), *layouts))
    used = {berth.name for berth in found}
    found += [Berth(place.name, place) for place in question.places if place.existing and place.name not in used]
    return found


def single(question: Question, bin: int, kind: int, names: Names) -> Berth:
    """A machine for one item alone."""
    load = ((kind, 1),)
    return Berth(names.of(question.bins[bin]), question.bins[bin], Counter(dict(load)), *_layouts(question, bin, load))


def _layouts(question: Question, bin: int, load: Load) -> tuple[Layout, str]:
    """The layout that a load was cut, and the mode of the GPUs that goes with it."""
    place = question.bins[bin]
    if place.mode != UNDECIDED or place.offer is None:
        return (), place.mode
    instance = place.offer.instance
    assert instance.accelerator is not None
    state = place.room.state(question.truth.sequence(bin, load))
    assert state is not None
    layout = layout_of(place.room.view, state, instance.gpus)
    full = filled(layout, instance.accelerator)
    chosen = full if is_possible(full, instance.accelerator) else layout
    return (chosen if any(chosen) else ()), mode_of(chosen)
