"""Table rows of the resource.k8s.io kinds: upstream's columns, and allocated, used and free devices.

Claims: allocated devices and node; wide: drivers, requests and consumers. Slices, wide: devices published, free and
used. A device is used if a claim holds it or a share of it (admin access does not count), and free if no claim does and
the counters it consumes are available (partitions of one GPU).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from allotment.apiserver.kinds.kind import StoreReader, TableConverter
from allotment.apiserver.reads.columns import NONE, age, age_of, columns, name_of, shortened, table
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree

Device = tuple[str, str, str]
Counter = tuple[str, str]

_CLAIMS: Final = "resourceclaims.resource.k8s.io"
_SLICES: Final = "resourceslices.resource.k8s.io"
_MAX_DEVICES: Final = 4


def _results(claim: Tree) -> list[Tree]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return list((allocation.get("devices") or {}).get("results") or ())


def _state(claim: Tree) -> str:
    status, deleted = claim.get("status") or {}, bool(claim["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if status.get("allocation") is None:
        states += [] if deleted else ["pending"]
    else:
        states.append("allocated")
        if status.get("reservedFor"):
            states.append("reserved")
    return ",".join(states)


def _node(claim: Tree) -> str:
    """The node of an allocation if there is exactly one; network-attached devices may be on several."""
    allocation = (claim.get("status") or {}).get("allocation")
    if allocation is None:
        return NONE
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms")
    if not terms:
        return "<any>"
    if len(terms) == 1:
        fields: list[Tree] = terms[0].get("matchFields") or []
        labels: list[Tree] = terms[0].get("matchExpressions") or []
        if len(fields) == 1 and not labels and len(fields[0].get("values") or ()) == 1:
            return str(fields[0]["values"][0])
    return "<several>"


def _devices(claim: Tree, node: str) -> str:
    """Device names, prefixed with the pool unless it has the node's name."""
    names = []
    for result in _results(claim):
        pool, device = result.get("pool") or "", result.get("device") or ""
        names.append(device if pool == node else f"{pool}/{device}")
    return shortened(names, _MAX_DEVICES)


def _distinct(values: Iterable[Any]) -> str:
    return shortened([str(value) for value in dict.fromkeys(values) if value], _MAX_DEVICES)


def _consumer(reference: Tree) -> str:
    resource, name = reference.get("resource") or "", reference.get("name") or ""
    return name if resource == "pods" else f"{resource}/{name}"


def _claim(claim: Tree, now: str) -> list[Any]:
    results, node = _results(claim), _node(claim)
    return [
        name_of(claim), _state(claim), age_of(claim, now), _devices(claim, node), node,
        _distinct(result.get("driver") for result in results), _distinct(result.get("request") for result in results),
        shortened([_consumer(reference) for reference in (claim.get("status") or {}).get("reservedFor") or ()]),
    ]  # fmt: skip


# --- what is used, of all slices at once -----------------------------------------------------------------------------


class _Usage:
    """Devices held by claims and available counters of each pool, computed once per revision of the store."""

    def __init__(self, reader: StoreReader) -> None:
        self.in_use: set[Device] = set()
        for claim in reader.list(_CLAIMS):
            for result in _results(claim.tree):
                if not result.get("adminAccess"):
                    self.in_use.add((result.get("driver") or "", result.get("pool") or "", result.get("device") or ""))
        self.available: dict[tuple[str, str], dict[Counter, Quantity]] = {}
        consumers: list[tuple[tuple[str, str], Tree]] = []
        for entry in reader.list(_SLICES):
            spec = entry.tree.get("spec") or {}
            pool = _pool(spec)
            for counters in spec.get("sharedCounters") or ():
                counters_of_pool = self.available.setdefault(pool, {})
                for name, counter in (counters.get("counters") or {}).items():
                    counters_of_pool[counters["name"], name] = Quantity.parse(str(counter["value"]))
            consumers += [(pool, device) for device in spec.get("devices") or () if device.get("consumesCounters")]
        for pool, device in consumers:
            if (*pool, device["name"]) in self.in_use:
                available = self.available.get(pool, {})
                for counter, amount in _consumed_counters(device):
                    if counter in available:
                        available[counter] = available[counter].sub(amount)

    def counts(self, spec: Tree) -> list[int]:
        """The number of devices, free devices and used devices in a slice (v1)."""
        pool, devices = _pool(spec), spec.get("devices") or ()
        used = free = 0
        available = self.available.get(pool, {})
        for device in devices:
            if (*pool, device["name"]) in self.in_use:
                used += 1
            elif all(available.get(counter, Quantity.ZERO) >= amount for counter, amount in _consumed_counters(device)):
                free += 1
        return [len(devices), free, used]


def _pool(spec: Tree) -> tuple[str, str]:
    return spec.get("driver") or "", (spec.get("pool") or {}).get("name") or ""


def _consumed_counters(device: Tree) -> Iterable[tuple[Counter, Quantity]]:
    for consumption in device.get("consumesCounters") or ():
        for name, counter in (consumption.get("counters") or {}).items():
            yield (consumption["counterSet"], name), Quantity.parse(str(counter["value"]))


_usages: WeakKeyDictionary[StoreReader, tuple[int, _Usage]] = WeakKeyDictionary()


def _usage(reader: StoreReader) -> _Usage:
    cached = _usages.get(reader)
    if cached is None or cached[0] != reader.revision:
        cached = _usages[reader] = (reader.revision, _Usage(reader))
    return cached[1]


def _slice(tree: Tree, now: str, reader: StoreReader) -> list[Any]:
    spec = tree.get("spec") or {}
    stored = reader.get(_SLICES, "", name_of(tree))  # in the shape in which devices are known
    counts = _usage(reader).counts((stored.tree if stored else tree).get("spec") or {})
    return [
        name_of(tree), spec.get("nodeName") or "", spec.get("driver") or "", (spec.get("pool") or {}).get("name") or "",
        age_of(tree, now), *counts,
    ]  # fmt: skip


# --- the others ------------------------------------------------------------------------------------------------------


def _named(tree: Tree, now: str) -> list[Any]:
    return [name_of(tree), age_of(tree, now)]


def _class(tree: Tree, now: str) -> list[Any]:
    spec = tree.get("spec") or {}
    return [name_of(tree), age_of(tree, now), spec.get("extendedResourceName") or NONE]


def _taint_rule(tree: Tree, now: str) -> list[Any]:
    taint = (tree.get("spec") or {}).get("taint") or {}
    added = taint.get("timeAdded")
    return [
        name_of(tree), taint.get("key") or "", taint.get("value") or "", taint.get("effect") or "",
        age(added, now) if added else "", age_of(tree, now),
    ]  # fmt: skip


_POOL_COUNTS: Final = ("totalDevices", "availableDevices", "allocatedDevices", "unavailableDevices")


def _pool_status(tree: Tree, now: str) -> list[Any]:
    status = tree.get("status")
    counts, state, completed, pools = ["-"] * 5, "Pending", NONE, 0
    if status is not None:
        true = {item["type"]: item for item in status.get("conditions") or () if item.get("status") == "True"}
        listed, pools = status.get("pools") or (), status.get("poolCount") or 0
        if "Complete" in true:
            state, completed = "Complete", age(true["Complete"].get("lastTransitionTime"), now)
            if pools > len(listed):
                state = f"Complete ({len(listed)}/{pools} pools)"
        if "Failed" in true and "Complete" not in true:
            state = "Failed"
        else:
            counts = [str(sum(pool.get(name) or 0 for pool in listed)) for name in _POOL_COUNTS]
            counts.append(str(sum(pool.get("validationError") is not None for pool in listed)))
    driver = (tree.get("spec") or {}).get("driver") or ""
    return [name_of(tree), driver, *counts, pools, state, completed]


TABLES: Final[Mapping[str, TableConverter]] = {
    _CLAIMS: table(_claim, "Name", "State", "Age", "Devices", "Node", "Driver*", "Requests*", "Reserved For*"),
    "resourceclaimtemplates.resource.k8s.io": table(_named, "Name", "Age"),
    "deviceclasses.resource.k8s.io": table(_class, "Name", "Age", "Extended Resource*"),
    _SLICES: TableConverter(
        columns("Name", "Node", "Driver", "Pool", "Age", "Devices:integer*", "Free:integer*", "Used:integer*"), _slice
    ),
    "devicetaintrules.resource.k8s.io": table(_taint_rule, "Name", "Key", "Value", "Effect", "TimeAdded", "Age"),
    "resourcepoolstatusrequests.resource.k8s.io": table(
        _pool_status, "Name", "Driver", "Total", "Available", "Allocated", "Unavailable", "Errors", "Pools:integer",
        "Status", "Completed",
    ),
}  # fmt: skip
