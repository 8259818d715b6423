"""Summaries of a complete pool in its status: partitions that still fit, and capacity of shareable devices (KEP-5677).

A partition is a device that consumes counters. Its type is the value of an attribute: the one that its slice names in
``partitionTypeAttribute``, or, if no slice of the pool names one, the one that the request names. From Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from allotment.model.quantity import Quantity
from allotment.model.quoting import quote
from allotment.model.trees import Tree

_MAX_ITEMS: Final = 32
_LONGEST_ERROR: Final = 256

#: Remaining counters by counter set and name.
Counters = dict[str, dict[str, Quantity]]
#: A partition type: attribute and value.
_Type = tuple[str, str]


class CompletePool(NamedTuple):
    """A complete pool. ``slices``: the specs of its slices of the newest generation.

    ``in_use``: the names of devices that claims without admin access have. ``consumed``: the capacity that these claims
    consume, by capacity name.
    """

    driver: str
    name: str
    slices: Sequence[Tree]
    in_use: Collection[str]
    consumed: Mapping[str, Quantity]

    @property
    def devices(self) -> Iterable[Tree]:
        for spec in self.slices:
            yield from spec.get("devices") or ()


class ViewError(Exception):
    """Raised if a summary cannot be computed; the text is the pool's ``validationError``."""

    def __init__(self, text: str) -> None:
        super().__init__(text.encode()[:_LONGEST_ERROR].decode(errors="ignore"))


def pool_views(pool: CompletePool, default_attribute: str) -> Tree:
    """Return ``partitionSummary``, ``shareableSummary`` and ``validationError``, each if there is one.

    ``default_attribute``: the partition type attribute of the request, or empty.
    """
    views: Tree = {}
    errors: list[str] = []
    try:
        if summary := _partition_summary(pool, default_attribute):
            views["partitionSummary"] = summary
    except ViewError as error:
        errors.append(str(error))
    try:
        if shareable := _shareable_summary(pool):
            views["shareableSummary"] = shareable
    except ViewError as error:
        errors.append(str(error))
    if errors:
        views.pop("partitionSummary", None)
        views["validationError"] = errors[0]
    return views


# --- partitions -------------------------------------------------------------------------------------------------------


class _Group:
    """The partitions of a type: their common cost and number, and how many are not in use."""

    __slots__ = ("cost", "free", "total")

    def __init__(self, cost: Mapping[str, Mapping[str, Quantity]]) -> None:
        self.cost = cost
        self.total = 0
        self.free = 0


def _partition_summary(pool: CompletePool, default_attribute: str) -> list[Tree]:
    """Return the partition types in order; none if no attribute is known. Raises ViewError."""
    declared = any(spec.get("partitionTypeAttribute") and spec.get("devices") for spec in pool.slices)
    attributes = [spec.get("partitionTypeAttribute") or ("" if declared else default_attribute) for spec in pool.slices]
    if not any(name and spec.get("devices") for name, spec in zip(attributes, pool.slices, strict=True)):
        return []
    available = _counters_of(pool)
    if not available:
        raise ViewError(
            f"PartitionTypeMissing: pool {pool.driver}/{pool.name} declares partitionTypeAttribute"
            " but publishes no sharedCounters"
        )
    groups: dict[_Type, _Group] = {}
    for attribute, spec in zip(attributes, pool.slices, strict=True):
        for device in spec.get("devices") or () if attribute else ():
            if device.get("consumesCounters"):
                _add(groups, pool, attribute, device)
    for device in pool.devices:
        if device["name"] in pool.in_use:
            _consume(_cost(device), available)
    if len(groups) > _MAX_ITEMS:
        raise ViewError(
            f"PartitionSummaryOverCap: pool {pool.driver}/{pool.name} has {len(groups)} partition types,"
            f" exceeding the maximum of {_MAX_ITEMS}"
        )
    return [
        {"attribute": attribute, "type": type_name, "total": group.total, "allocatable": _fitting(group, available)}
        for (attribute, type_name), group in sorted(groups.items())
    ]


def _add(groups: dict[_Type, _Group], pool: CompletePool, attribute: str, device: Tree) -> None:
    type_name = _type_of(pool.driver, attribute, device)
    if type_name is None:
        raise ViewError(
            f"PartitionTypeMissing: device {quote(device['name'])} in pool {pool.driver}/{pool.name}"
            f" does not carry partition type attribute {quote(attribute)}"
        )
    cost = _cost(device)
    group = groups.setdefault((attribute, type_name), _Group(cost))
    if group.cost != cost:
        raise ViewError(
            f"PartitionCostMismatch: devices of partition type {quote(type_name)} in pool {pool.driver}/{pool.name}"
            " consume different counters"
        )
    group.total += 1
    group.free += device["name"] not in pool.in_use


def _type_of(driver: str, attribute: str, device: Tree) -> str | None:
    """The string value of an attribute by its full name, or by its name in the driver's domain; None if missing."""
    attributes = device.get("attributes") or {}
    found = attributes.get(attribute)
    domain, _, name = attribute.partition("/")
    if found is None and domain == driver:
        found = attributes.get(name)
    value: str | None = (found or {}).get("string")
    return value


def _cost(device: Tree) -> dict[str, dict[str, Quantity]]:
    return {
        consumption["counterSet"]: _quantities(consumption.get("counters"))
        for consumption in device.get("consumesCounters") or ()
    }


def _counters_of(pool: CompletePool) -> Counters:
    return {
        counters["name"]: _quantities(counters.get("counters"))
        for spec in pool.slices
        for counters in spec.get("sharedCounters") or ()
    }


def _quantities(counters: Any) -> dict[str, Quantity]:
    return {name: Quantity.parse(str(counter["value"])) for name, counter in (counters or {}).items()}


def _fitting(group: _Group, available: Mapping[str, Mapping[str, Quantity]]) -> int:
    """The number of free partitions of a type that fit into the remaining counters, without any of other types."""
    left = {name: dict(counters) for name, counters in available.items()}
    fitting = 0
    while fitting < group.free and _fits(group.cost, left):
        _consume(group.cost, left)
        fitting += 1
    return fitting


def _fits(cost: Mapping[str, Mapping[str, Quantity]], available: Counters) -> bool:
    return all(
        name in available.get(counter_set, {}) and amount <= available[counter_set][name]
        for counter_set, amounts in cost.items()
        for name, amount in amounts.items()
    )


def _consume(cost: Mapping[str, Mapping[str, Quantity]], available: Counters) -> None:
    for counter_set, amounts in cost.items():
        left = available.get(counter_set, {})
        for name, amount in amounts.items():
            if name in left:
                left[name] = left[name].sub(amount)


# --- shareable devices ------------------------------------------------------------------------------------------------


def _shareable_summary(pool: CompletePool) -> Tree | None:
    """Return the devices that several claims can share, and their capacity; None without any. Raises ViewError."""
    shareable = [device for device in pool.devices if device.get("allowMultipleAllocations")]
    if not shareable:
        return None
    total: dict[str, Quantity] = {}
    for device in shareable:
        for name, amount in _quantities(device.get("capacity")).items():
            total[name] = total.get(name, Quantity.ZERO).add(amount)
    if len(total) > _MAX_ITEMS:
        raise ViewError(
            f"ShareableSummaryOverCap: pool {pool.driver}/{pool.name} has {len(total)} shareable capacity keys,"
            f" exceeding the maximum of {_MAX_ITEMS}"
        )
    in_use = sum(device["name"] in pool.in_use for device in shareable)
    summary: Tree = {"fullyAvailableDevices": len(shareable) - in_use, "partiallyAvailableDevices": in_use}
    if total:
        summary["capacity"] = [
            _capacity(name, amount, pool.consumed.get(name, Quantity.ZERO)) for name, amount in sorted(total.items())
        ]
    return summary


def _capacity(name: str, total: Quantity, consumed: Quantity) -> Tree:
    left = total.sub(consumed)
    available = str(left) if left.sign() >= 0 else "0"
    return {"name": name, "total": str(total), "consumed": str(consumed), "available": available}
