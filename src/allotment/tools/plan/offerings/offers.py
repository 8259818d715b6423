"""What may be bought: types of the catalogue by zone and capacity type, within the limits, each at its price.

Zones and capacity types tell offers apart only where something asks for them: elsewhere the cheapest capacity type in
the first zone stands for all, and the search has a tenth of the offers to look at.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from allotment.fleet.catalog.instance_type import CAPACITY_TYPES, CapacityType, InstanceType
from allotment.tools.plan.limits import Limits

#: Prices are counted in millionths, so that sums are exact.
MICRO: Final = 10**6


class Offer(NamedTuple):
    """A type as it can be had. ``price``: USD per hour, None if it is not known."""

    instance: InstanceType
    zone: str
    capacity_type: CapacityType
    price: Decimal | None

    @property
    def micro(self) -> int:
        """The price in millionths of a dollar."""
        assert self.price is not None
        return int((self.price * MICRO).to_integral_value())


def forbidden(instance: InstanceType, limits: Limits) -> str:
    """Why limits forbid a type altogether, in words; empty if they do not."""
    key = instance.key
    if limits.providers and instance.provider not in limits.providers:
        return f"provider {instance.provider} is not among those allowed"
    if limits.types and not any(fnmatchcase(key, pattern) for pattern in limits.types):
        return "not among the types allowed"
    if any(fnmatchcase(key, pattern) for pattern in limits.without):
        return "among the types excluded"
    if any(most <= 0 and fnmatchcase(key, pattern) for pattern, most in limits.most):
        return "the quota of this type is used up"
    if limits.zones and not set(limits.zones) & set(instance.zones):
        return f"not in {', '.join(limits.zones)}"
    return ""


def capacities(limits: Limits) -> tuple[CapacityType, ...]:
    """The capacity types that the policy allows."""
    if limits.capacity == "cheapest":
        return CAPACITY_TYPES
    return (limits.capacity,)


def offers_of(instance: InstanceType, limits: Limits, *, each_zone: bool, each_capacity: bool) -> tuple[Offer, ...]:
    """How a type can be had within the limits: nothing if they forbid it or no price is known.

    ``each_zone``, ``each_capacity``: all of them, and not only the first zone and the cheapest.
    """
    if instance.unusable or forbidden(instance, limits):
        return ()
    zones = [zone for zone in instance.zones or ("",) if not limits.zones or zone in limits.zones]
    found: list[Offer] = []
    for capacity in capacities(limits):
        price = instance.price(capacity)
        if price is None or price <= 0:
            continue
        there = [zone for zone in zones if not _unavailable(instance.key, zone, capacity, limits)]
        found += [Offer(instance, zone, capacity, price) for zone in (there if each_zone else there[:1])]
    if each_capacity or not found:
        return tuple(found)
    best = min(offer.price or Decimal(0) for offer in found)
    kind = next(offer.capacity_type for offer in found if offer.price == best)
    return tuple(offer for offer in found if offer.capacity_type == kind)


def any_offer(instance: InstanceType) -> Offer:
    """The type as it is, whatever it costs and whatever limits say: to ask whether it could serve at all."""
    zone = instance.zones[0] if instance.zones else ""
    return Offer(instance, zone, "on-demand", instance.price("on-demand"))


def quotas(offer: Offer, limits: Limits) -> tuple[str, ...]:
    """The shared limits that a machine counts against; see `quota_limits`."""
    found = [f"most {pattern}" for pattern, _ in limits.most if fnmatchcase(offer.instance.key, pattern)]
    if limits.machines is not None:
        found.append("machines")
    if offer.capacity_type == "spot" and limits.spot_share is not None:
        found.append("spot")
    return tuple(found)


def quota_limits(limits: Limits) -> tuple[tuple[str, int], ...]:
    """How many machines each shared limit allows; a share of all machines is no such number."""
    found = [(f"most {pattern}", most) for pattern, most in limits.most]
    if limits.machines is not None:
        found.append(("machines", limits.machines))
    return tuple(found)


def _unavailable(key: str, zone: str, capacity: CapacityType, limits: Limits) -> bool:
    def covers(entry: Iterable[str], value: tuple[str, ...]) -> bool:
        return all(not wanted or wanted == has for wanted, has in zip(entry, value, strict=True))

    return any(covers(entry, (key, zone, capacity)) for entry in limits.unavailable)
