"""Planned nodes: the bins of a packing as existing nodes or new machines with a name, GPU mode and MIG layout."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from allotment.fleet.catalog.instance_type import Template
from allotment.packing.problem import Load, PackedBins
from allotment.planning.formulation.candidate_nodes import CandidateNode
from allotment.planning.formulation.problem import Formulation
from allotment.planning.offerings.mig_layouts import Layout, allocated_layout, filled_layout, is_possible, mode_of
from allotment.planning.offerings.templates import UNDECIDED, template


@dataclass(slots=True)
class PlannedNode:
    """An existing node or a machine to provision. ``expected``: the items by kind that are planned for it."""

    name: str
    candidate: CandidateNode
    expected: Counter[int] = field(default_factory=Counter)
    layout: Layout = ()
    mode: str = ""

    @property
    def is_new(self) -> bool:
        """Whether it is a machine to provision."""
        return self.candidate.offer is not None

    def template(self, kube: str) -> Template:
        """The template of the machine, with its name in the plan."""
        offer = self.candidate.offer
        assert offer is not None
        return template(offer.instance, self.mode, self.name, kube, offer.zone, offer.capacity_type)


class NodeNames:
    """Unique names for machines, from type and number."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._numbers: Counter[str] = Counter()

    def of(self, candidate: CandidateNode) -> str:
        """A name that is not taken."""
        assert candidate.offer is not None
        stem = re.sub("[^a-z0-9]+", "-", candidate.offer.instance.name.lower()).strip("-")[:50]
        while True:
            self._numbers[stem] += 1
            name = f"{stem}-{self._numbers[stem]}"
            if name not in self._taken:
                self._taken.add(name)
                return name


def planned_nodes(formulation: Formulation, bins: Sequence[PackedBins], names: NodeNames) -> list[PlannedNode]:
    """A planned node for each bin of a packing and for each existing node."""
    nodes: list[PlannedNode] = []
    existing = {number: iter(candidates) for number, candidates in formulation.merged_nodes.items()}
    for packed in bins:
        if packed.bin_type in existing:
            load = dict(packed.load)
            nodes += [
                PlannedNode(candidate.name, candidate, Counter(load))
                for candidate in islice(existing[packed.bin_type], packed.count)
            ]
            continue
        candidate = formulation.bin_candidates[packed.bin_type]
        layouts = _layout_and_mode(formulation, packed.bin_type, packed.load)
        for _ in range(packed.count):
            nodes.append(PlannedNode(names.of(candidate), candidate, Counter(dict(packed.load)), *layouts))
    used = {node.name for node in nodes}
    nodes += [
        PlannedNode(candidate.name, candidate)
        for candidate in formulation.candidates
        if candidate.is_existing and candidate.name not in used
    ]
    return nodes


def node_for_item(formulation: Formulation, number: int, kind: int, names: NodeNames) -> PlannedNode:
    """A new machine of a bin type for a single item."""
    candidate, load = formulation.bin_candidates[number], ((kind, 1),)
    return PlannedNode(
        names.of(candidate), candidate, Counter(dict(load)), *_layout_and_mode(formulation, number, load)
    )


def _layout_and_mode(formulation: Formulation, number: int, load: Load) -> tuple[Layout, str]:
    """The MIG layout for a load, and the mode of the GPUs; the layout is empty unless the plan decides it."""
    candidate = formulation.bin_candidates[number]
    if candidate.mode != UNDECIDED or candidate.offer is None:
        return (), candidate.mode
    instance = candidate.offer.instance
    assert instance.accelerator is not None
    state = candidate.devices.state(formulation.oracle.sequence(number, load))
    assert state is not None
    layout = allocated_layout(candidate.devices.view, state, instance.gpus)
    filled = filled_layout(layout, instance.accelerator)
    chosen = filled if is_possible(filled, instance.accelerator) else layout
    return (chosen if any(chosen) else ()), mode_of(chosen)
