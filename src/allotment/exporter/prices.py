"""What a node costs, by the catalogue: the type that its label names, where only one type can be meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from allotment.fleet.catalog import CapacityType, InstanceType
from allotment.fleet.catalog.labels import CAPACITY_TYPE, INSTANCE_TYPE, REGION

#: ``region``: of the node's own region; ``elsewhere``: of another one, for the catalogue has that only.
Known: TypeAlias = Literal["region", "elsewhere", "unknown"]
KNOWN: Final[tuple[Known, ...]] = ("region", "elsewhere", "unknown")

#: Labels that say that a node is a spot instance, and what they say then.
_SPOT: Final[Mapping[str, str]] = {
    CAPACITY_TYPE: "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
    "cloud.google.com/gke-spot": "true",
    "cloud.google.com/gke-preemptible": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
}


class Price(NamedTuple):
    """USD per hour of a node: for which type, bought how, and of which region; None is not known."""

    usd: float | None
    instance_type: str
    capacity_type: CapacityType
    region: str = ""
    known: Known = "unknown"


class Prices:
    """A catalogue, by what nodes say of themselves."""

    def __init__(self, catalog: Iterable[InstanceType]) -> None:
        self._types: dict[str, list[InstanceType]] = {}
        for one in catalog:
            self._types.setdefault(one.name.partition("+")[0], []).append(one)

    def of(self, labels: Mapping[str, str], pieces: int) -> Price:
        """The price of a node with these labels and so many accelerators."""
        name = labels.get(INSTANCE_TYPE, "")
        spot = any(labels.get(key) == value for key, value in _SPOT.items())
        capacity: CapacityType = "spot" if spot else "on-demand"
        # A host to which GPUs are attached is, to its label, the host.
        meant = [one for one in self._types.get(name, ()) if one.name == name or one.gpus == pieces]
        region = labels.get(REGION, "")
        meant = [one for one in meant if region and one.region == region] or meant
        price = meant[0].price(capacity) if len(meant) == 1 else None
        if price is None:
            return Price(None, name, capacity)
        own = meant[0].region
        return Price(float(price), name, capacity, own, "region" if not own or own == region else "elsewhere")
