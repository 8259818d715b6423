"""What nodes cost, who holds which part of that, and what is idle. A price that is not known is counted as unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from allotment.exporter.definitions import CLAIM_COST, CLAIMS_COST, CLAIMS_PRICED, IDLE_COST, NODE_COST, NODES_PRICED
from allotment.exporter.metric import Family, Sample
from allotment.exporter.node_usage import Tally
from allotment.exporter.prices import KNOWN, Prices
from allotment.exporter.state import State
from allotment.model.meta import ObjectKey


def costs(state: State, tallies: Mapping[str, Tally], prices: Prices, *, per_claim: bool) -> Iterator[Family]:
    """The families; ``tallies`` by node, those of devices that several nodes reach under an empty name."""
    nodes: list[Sample] = []
    idle: list[Sample] = []
    priced: Counter[str] = Counter()
    by_class: dict[tuple[str, str], float] = {}
    by_claim: dict[ObjectKey, float] = {}
    unknown: set[ObjectKey] = set()
    for name, tally in tallies.items():
        held = tally.held
        if not held.pieces:
            continue
        labels = state.inventory.nodes[name].labels if name else {}
        price = prices.of(labels, held.pieces)
        if name:
            priced[price.known] += 1
        if price.usd is None:
            unknown.update(holder.claim for holder in held.by)
            continue
        nodes.append(Sample((name, price.instance_type, price.capacity_type, price.region), price.usd))
        idle.append(Sample((name,), price.usd * max(1.0 - sum(held.by.values()), 0.0)))
        for holder, part in held.by.items():
            key = (holder.claim.namespace, holder.device_class)
            by_class[key] = by_class.get(key, 0.0) + price.usd * part
            by_claim[holder.claim] = by_claim.get(holder.claim, 0.0) + price.usd * part
    # A claim that holds something of unknown price has no price that is known.
    known = Counter((key.namespace, "known") for key in by_claim if key not in unknown)
    known.update((key.namespace, "unknown") for key in unknown)
    namespaces = sorted({namespace for namespace, _ in known})
    yield Family(NODE_COST, nodes)
    yield Family(NODES_PRICED, [Sample((one,), priced[one]) for one in KNOWN])
    yield Family(CLAIMS_COST, [Sample(labels, by_class[labels]) for labels in sorted(by_class)])
    yield Family(
        CLAIMS_PRICED, [Sample((name, one), known[name, one]) for name in namespaces for one in ("known", "unknown")]
    )
    yield Family(IDLE_COST, idle)
    if per_claim:
        order = sorted(by_claim.keys() - unknown, key=lambda key: (-by_claim[key], key))
        yield Family(CLAIM_COST, [Sample((key.namespace, key.name), by_claim[key]) for key in order])
