"""What may be bought."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

from allotment.fleet.catalog.instance_type import CapacityType

#: on-demand: only that. spot: only that. cheapest: per machine whichever costs less.
CapacityPolicy: TypeAlias = Literal["on-demand", "spot", "cheapest"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of a plan. Empty tuples mean any.

    ``types``, ``without``: shell patterns on ``provider/type`` (``aws/g5.*``); ``zones`` by name. ``budget``: most
    USD per hour in all. ``most``: how many machines at most, by pattern. ``machines``: how many in all.
    ``spot_share``: most of the machines that may be spot, as a fraction, where ``capacity`` allows both.
    ``standing``: how many machines there are already that it is of, too, and how many of these are spot. ``modes``:
    kinds of modes that the planner may put GPUs into beside whole ones (``static-mig``, ``dynamic-mig``,
    ``consumable-shares``, ``shared``, AMD's partitions); empty: those that some claim asks for. ``unavailable``:
    offerings that were out of stock just now (type key, zone, capacity type; empty strings stand for any).
    """

    providers: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    capacity: CapacityPolicy = "on-demand"
    spot_share: Decimal | None = None
    standing: tuple[int, int] = (0, 0)
    budget: Decimal | None = None
    most: tuple[tuple[str, int], ...] = ()
    machines: int | None = None
    modes: tuple[str, ...] = ()
    unavailable: tuple[tuple[str, str, CapacityType | str], ...] = ()
