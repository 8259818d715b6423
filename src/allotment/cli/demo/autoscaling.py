"""The autoscaling demo: plans the cheapest machines of each example by provider, and provisions them in an empty lab.

A second lab has no nodes, and an autoscaler with the prices of two providers. Each example must run on the type
that ``allot plan`` selects for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final, NamedTuple

from allotment.api.objects.validation import validate
from allotment.cel.validation_context import validation_context
from allotment.cli.demo.allocations import Allocations
from allotment.cli.demo.apply import tool
from allotment.cli.demo.example_runs import Outcome, applied, decide, devices_in, given, table
from allotment.cli.demo.offline import KUBE
from allotment.cli.output.console import Screen, folded
from allotment.fleet import CLASSES
from allotment.fleet.catalog import catalog
from allotment.lab.lab import Lab
from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.planning.limits import PlanLimits
from allotment.planning.planner import plan
from allotment.planning.report import PlannedMachine
from allotment.reference.packaged_examples import Example

#: The providers of the lab's simulated cloud.
SOLD: Final = ("aws", "gcp")
#: The cases of the articles: whole GPU, time-slicing, MPS, MIG.
_FIRST: Final = 4
_WIDTH: Final = 80
#: A non-breaking space.
_TIED: Final = "\u00a0"
_TYPE: Final = "node.kubernetes.io/instance-type"


class Offer(NamedTuple):
    """The cheapest plan with one provider; no machines if none of its types fits."""

    provider: str
    machines: tuple[PlannedMachine, ...]

    @property
    def usd(self) -> Decimal:
        """The price per hour."""
        return sum((machine.usd_per_hour for machine in self.machines), Decimal(0))


class ProvisionedExample(NamedTuple):
    """An example with its offers by provider, and its result in the lab: the types of its machines."""

    offers: tuple[Offer, ...]
    outcome: Outcome
    types: tuple[str, ...]

    @property
    def planned(self) -> Offer:
        """The offer that the lab's autoscaler is expected to order."""
        able = [offer for offer in self.offers if offer.machines and offer.provider in SOLD]
        return min(able, key=lambda offer: offer.usd)

    @property
    def as_planned(self) -> bool:
        """Whether every pod runs, on the planned types."""
        wanted = sorted(machine.instance.partition("/")[2] for machine in self.planned.machines)
        return self.outcome.runs and sorted(self.types) == wanted


def buy(chosen: Sequence[Example], home: Path, speed: float) -> list[ProvisionedExample]:
    """Price the first examples, and run them in a lab without nodes."""
    first = chosen[:_FIRST]
    prices = [tuple(_offers(example)) for example in first]
    with Lab((), name="demo-cloud", speed=speed, autoscale=",".join(SOLD)) as lab:
        applying = tool(lab.kubeconfig, home)
        allocations = Allocations(lab)
        trials = [applied(lab, applying, example, "bought") for example in first]
        found: list[ProvisionedExample] = []
        for trial, offers in zip(trials, prices, strict=True):
            decide(lab, trial, allocations, {}, until_running=True)
            known = devices_in(lab)
            for group in trial.outcome.groups:
                group.kinds = {known[key]: None for key in group.devices if key in known}
            nodes = {group.node: None for group in trial.outcome.groups}
            types = tuple(lab.get("node", node)["metadata"]["labels"][_TYPE] for node in nodes)
            found.append(ProvisionedExample(offers, trial.outcome, types))
        return found


def _offers(example: Example) -> Iterator[Offer]:
    features = Features(kube=KUBE)
    values, _ = validate(load_text(example.text), validation_context(features))
    sold = catalog()
    for provider in dict.fromkeys(instance_type.provider for instance_type in sold):
        found = plan(
            (*CLASSES["nvidia"], *values), sold, PlanLimits(providers=(provider,)), features,
            keep_going=lambda: False, reasons=False,
        )  # fmt: skip
        yield Offer(provider, () if found.unserved else found.machines)


def lines(screen: Screen, examples: Sequence[ProvisionedExample]) -> Iterator[str]:
    """Yield lines with the prices and results."""
    width = screen.width or _WIDTH
    yield screen.paint("Cheapest machines for an empty cluster (allot plan, USD per hour):", "green")
    for prices, same_prices in itertools.groupby(examples, key=lambda example: tuple(_priced(example.offers))):
        for example in same_prices:
            yield f"{example.outcome.number:>2}  {example.outcome.example.title}"
        yield from (line.replace(_TIED, " ") for line in folded(", ".join(prices), width, " " * 6))
    yield ""
    yield screen.paint(
        f"Provisioned in a lab without nodes (allot up --autoscale --catalog {','.join(SOLD)}):", "green"
    )
    rows = [("", "PODS", "MACHINE", "DEVICES")]
    for example in examples:
        for group, kind in zip(example.outcome.groups, example.types, strict=False):
            rows.append((str(example.outcome.number), group.pods_in_words, kind, given(group)))
        if not example.as_planned:
            message = example.outcome.message.partition("\n")[0] or "on a machine that was not planned"
            rows.append((str(example.outcome.number), example.outcome.waits, "", f"not as planned: {message}"))
    yield from table(rows, width)


def _priced(offers: Sequence[Offer]) -> Iterator[str]:
    """Return the offers for an example, the cheapest first."""
    for offer in sorted((candidate for candidate in offers if candidate.machines), key=lambda candidate: candidate.usd):
        yield f"{_named(offer)}{_TIED}{offer.usd:.2f}"
    unable = [offer.provider for offer in offers if not offer.machines]
    if unable:
        yield f"{', '.join(unable)}:{_TIED}none"


def _named(offer: Offer) -> str:
    names = ", ".join(dict.fromkeys(machine.instance for machine in offer.machines))
    return names if len(offer.machines) == 1 else f"{len(offer.machines)} ×{_TIED}{names}"
