"""Prices of nodes from the catalog, and metrics of node costs, the share of each claim, and the idle rest.

Nodes without a known price count as unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from allotment.exporter.definitions import CLAIM_COST, CLAIMS_COST, CLAIMS_PRICED, IDLE_COST, NODE_COST, NODES_PRICED
from allotment.exporter.device_usage import NodeUsage
from allotment.exporter.metric import Family, Sample
from allotment.exporter.state import ExporterState
from allotment.fleet.catalog import CapacityType, InstanceType
from allotment.fleet.catalog.labels import CAPACITY_TYPE, INSTANCE_TYPE, REGION
from allotment.model.meta import ObjectKey

#: ``region``: the node's own region; ``elsewhere``: another region, because the catalog has no other price.
PriceSource: TypeAlias = Literal["region", "elsewhere", "unknown"]
PRICE_SOURCES: Final[tuple[PriceSource, ...]] = ("region", "elsewhere", "unknown")

#: Labels and values that mark a node as a spot instance.
_SPOT: Final[Mapping[str, str]] = {
    CAPACITY_TYPE: "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
    "cloud.google.com/gke-spot": "true",
    "cloud.google.com/gke-preemptible": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
}


class Price(NamedTuple):
    """The USD per hour of a node, with its instance type, capacity type and region; None if unknown."""

    usd: float | None
    instance_type: str
    capacity_type: CapacityType
    region: str = ""
    source: PriceSource = "unknown"


class NodePrices:
    """A catalog, indexed for lookup by node labels."""

    def __init__(self, catalog: Iterable[InstanceType]) -> None:
        self._types: dict[str, list[InstanceType]] = {}
        for instance_type in catalog:
            self._types.setdefault(instance_type.name.partition("+")[0], []).append(instance_type)

    def of(self, labels: Mapping[str, str], pieces: int) -> Price:
        """Return the price of a node with these labels and this number of accelerators."""
        name = labels.get(INSTANCE_TYPE, "")
        spot = any(labels.get(key) == value for key, value in _SPOT.items())
        capacity: CapacityType = "spot" if spot else "on-demand"
        # The label of a host with attached GPUs names only the host.
        candidates = [
            candidate for candidate in self._types.get(name, ()) if candidate.name == name or candidate.gpus == pieces
        ]
        region = labels.get(REGION, "")
        candidates = [candidate for candidate in candidates if region and candidate.region == region] or candidates
        price = candidates[0].price(capacity) if len(candidates) == 1 else None
        if price is None:
            return Price(None, name, capacity)
        own = candidates[0].region
        return Price(float(price), name, capacity, own, "region" if not own or own == region else "elsewhere")


def costs(
    state: ExporterState, usages: Mapping[str, NodeUsage], prices: NodePrices, *, per_claim: bool
) -> Iterator[Family]:
    """Yield the metric families; ``usages`` by node, devices that several nodes can use under an empty name."""
    nodes: list[Sample] = []
    idle: list[Sample] = []
    priced: Counter[str] = Counter()
    by_class: dict[tuple[str, str], float] = {}
    by_claim: dict[ObjectKey, float] = {}
    unknown: set[ObjectKey] = set()
    for name, usage in usages.items():
        held = usage.held
        if not held.pieces:
            continue
        labels = state.inventory.nodes[name].labels if name else {}
        price = prices.of(labels, held.pieces)
        if name:
            priced[price.source] += 1
        if price.usd is None:
            unknown.update(holder.claim for holder in held.by_holder)
            continue
        nodes.append(Sample((name, price.instance_type, price.capacity_type, price.region), price.usd))
        idle.append(Sample((name,), price.usd * max(1.0 - sum(held.by_holder.values()), 0.0)))
        for holder, part in held.by_holder.items():
            key = (holder.claim.namespace, holder.device_class)
            by_class[key] = by_class.get(key, 0.0) + price.usd * part
            by_claim[holder.claim] = by_claim.get(holder.claim, 0.0) + price.usd * part
    # The cost of a claim is unknown if any of its devices has an unknown price.
    known = Counter((key.namespace, "known") for key in by_claim if key not in unknown)
    known.update((key.namespace, "unknown") for key in unknown)
    namespaces = sorted({namespace for namespace, _ in known})
    yield Family(NODE_COST, nodes)
    yield Family(NODES_PRICED, [Sample((source,), priced[source]) for source in PRICE_SOURCES])
    yield Family(CLAIMS_COST, [Sample(labels, by_class[labels]) for labels in sorted(by_class)])
    yield Family(
        CLAIMS_PRICED,
        [Sample((name, source), known[name, source]) for name in namespaces for source in ("known", "unknown")],
    )
    yield Family(IDLE_COST, idle)
    if per_claim:
        order = sorted(by_claim.keys() - unknown, key=lambda key: (-by_claim[key], key))
        yield Family(CLAIM_COST, [Sample((key.namespace, key.name), by_claim[key]) for key in order])
