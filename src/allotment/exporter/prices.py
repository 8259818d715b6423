"""The price of a node from the catalogue, by the instance type label, if that determines one type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from allotment.fleet.catalog import CapacityType, InstanceType
from allotment.fleet.catalog.labels import CAPACITY_TYPE, INSTANCE_TYPE, REGION

#: ``region``: the node's own region; ``elsewhere``: another region, because the catalogue has no other price.
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
    """A catalogue, indexed for lookup by node labels."""

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
