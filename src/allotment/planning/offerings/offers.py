"""Offers: instance types of the catalog by zone and capacity type, within the limits, with their prices.

Offers differ by zone and capacity type only if a pod or limit depends on these. Otherwise the cheapest capacity type in
the first zone represents all, which reduces the number of offers to a tenth.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from allotment.fleet.catalog.instance_type import CAPACITY_TYPES, CapacityType, InstanceType
from allotment.planning.limits import PlanLimits

#: Micro-dollars per dollar: prices are integers, so that sums are exact.
MICRO: Final = 10**6


class InstanceOffer(NamedTuple):
    """An instance type in a zone and capacity type. ``price``: USD per hour, None if unknown."""

    instance: InstanceType
    zone: str
    capacity_type: CapacityType
    price: Decimal | None

    @property
    def micro_usd(self) -> int:
        """The price in micro-dollars per hour."""
        assert self.price is not None
        return int((self.price * MICRO).to_integral_value())


def excluded_by_limits(instance: InstanceType, limits: PlanLimits) -> str:
    """The reason why limits exclude a type, as text; empty if they do not."""
    key = instance.key
    if limits.providers and instance.provider not in limits.providers:
        return f"provider {instance.provider} is not allowed"
    if limits.types and not any(fnmatchcase(key, pattern) for pattern in limits.types):
        return "type is not allowed"
    if any(fnmatchcase(key, pattern) for pattern in limits.excluded_types):
        return "type is excluded"
    if any(limit <= 0 and fnmatchcase(key, pattern) for pattern, limit in limits.max_by_pattern):
        return "the maximum number of machines of this type is reached"
    if limits.zones and not set(limits.zones) & set(instance.zones):
        return f"not offered in {', '.join(limits.zones)}"
    return ""


def allowed_capacity_types(limits: PlanLimits) -> tuple[CapacityType, ...]:
    """The capacity types that the policy allows."""
    if limits.capacity == "cheapest":
        return CAPACITY_TYPES
    return (limits.capacity,)


def offers_of(
    instance: InstanceType, limits: PlanLimits, *, each_zone: bool, each_capacity: bool
) -> tuple[InstanceOffer, ...]:
    """The offers of a type within the limits; empty if they exclude it or no price is known.

    ``each_zone``, ``each_capacity``: include all zones or capacity types, not only the first zone or the cheapest type.
    """
    if instance.unusable or excluded_by_limits(instance, limits):
        return ()
    zones = [zone for zone in instance.zones or ("",) if not limits.zones or zone in limits.zones]
    offers: list[InstanceOffer] = []
    for capacity in allowed_capacity_types(limits):
        price = instance.price(capacity)
        if price is None or price <= 0:
            continue
        available = [zone for zone in zones if not _unavailable(instance.key, zone, capacity, limits)]
        offers += [
            InstanceOffer(instance, zone, capacity, price) for zone in (available if each_zone else available[:1])
        ]
    if each_capacity or not offers:
        return tuple(offers)
    best = min(offer.price or Decimal(0) for offer in offers)
    kind = next(offer.capacity_type for offer in offers if offer.price == best)
    return tuple(offer for offer in offers if offer.capacity_type == kind)


def unlimited_offer(instance: InstanceType) -> InstanceOffer:
    """The type regardless of limits and price, to check whether it fits at all."""
    zone = instance.zones[0] if instance.zones else ""
    return InstanceOffer(instance, zone, "on-demand", instance.price("on-demand"))


def quotas(offer: InstanceOffer, limits: PlanLimits) -> tuple[str, ...]:
    """The names of the group limits that a machine counts against; see `quota_limits`."""
    names = [f"most {pattern}" for pattern, _ in limits.max_by_pattern if fnmatchcase(offer.instance.key, pattern)]
    if limits.max_machines is not None:
        names.append("machines")
    if offer.capacity_type == "spot" and limits.spot_share is not None:
        names.append("spot")
    return tuple(names)


def quota_limits(limits: PlanLimits) -> tuple[tuple[str, int], ...]:
    """The maximum number of machines by group limit. The spot share is relative and therefore not among them."""
    group_limits = [(f"most {pattern}", limit) for pattern, limit in limits.max_by_pattern]
    if limits.max_machines is not None:
        group_limits.append(("machines", limits.max_machines))
    return tuple(group_limits)


def _unavailable(key: str, zone: str, capacity: CapacityType, limits: PlanLimits) -> bool:
    def covers(entry: Iterable[str], value: tuple[str, ...]) -> bool:
        return all(not wanted or wanted == has for wanted, has in zip(entry, value, strict=True))

    return any(covers(entry, (key, zone, capacity)) for entry in limits.unavailable)
