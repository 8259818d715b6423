"""Limits on the machines of a plan: providers, types, zones, capacity types, budget and quotas."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

from allotment.fleet.catalog.instance_type import CapacityType

#: on-demand and spot allow only that capacity type; cheapest chooses per machine.
CapacityPolicy: TypeAlias = Literal["on-demand", "spot", "cheapest"]


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """The limits of a plan. An empty tuple allows anything.

    ``types``, ``excluded_types``: shell patterns on ``provider/type`` (``aws/g5.*``); ``zones`` by name. ``budget``:
    maximum total in USD per hour. ``max_by_pattern``: maximum number of machines by type pattern; ``max_machines``: of
    all machines. ``spot_share``: maximum fraction of spot machines, if ``capacity`` allows both types.
    ``existing_machines``: the number of existing machines that the share includes, and how many of these are spot.
    ``modes``: modes of GPUs that a plan may use besides whole ones (``static-mig``, ``dynamic-mig``,
    ``consumable-shares``, ``shared``, AMD's partitions); empty: those that some claim requests. ``unavailable``:
    offerings that are out of stock (type key, zone, capacity type; an empty string matches any).
    """

    providers: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    excluded_types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    capacity: CapacityPolicy = "on-demand"
    spot_share: Decimal | None = None
    existing_machines: tuple[int, int] = (0, 0)
    budget: Decimal | None = None
    max_by_pattern: tuple[tuple[str, int], ...] = ()
    max_machines: int | None = None
    modes: tuple[str, ...] = ()
    unavailable: tuple[tuple[str, str, CapacityType | str], ...] = ()
