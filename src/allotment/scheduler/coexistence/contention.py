"""Detects devices that two schedulers allocated to more claims than the devices can serve.

Nothing in the API relates two claims to each other, so the API server accepts both. Contested are a device that one
claim holds exclusively and another holds, too; a shareable device whose consumed capacity exceeds its capacity
(KEP-5075); and a device that consumes counters which are overdrawn (KEP-4815).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from allotment.engine.cluster.identity import DeviceID
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.cluster.layout import NodeView, available
from allotment.model.meta import ObjectKey


class Contest(NamedTuple):
    """A device of a claim, and another claim that holds it or the counters it consumes."""

    device: DeviceID
    holder: ObjectKey
    is_exclusive: bool
    """Whether one of them holds it exclusively; otherwise its capacity or its counters are exceeded."""


def contests(inventory: Inventory, claim: ObjectKey, node: str = "") -> list[Contest]:
    """Return the other claims that hold what a claim holds; claims with admin access hold nothing.

    ``node``: where the devices are used. Capacity and counters are checked as that node sees them; without a known node
    only exclusive devices are checked.
    """
    usage = inventory.usage
    allocation = usage.allocations.get(claim)
    if allocation is None:
        return []
    found: dict[ObjectKey, Contest] = {}
    own: list[DeviceID] = []
    for result in allocation.devices.results:
        if result.admin_access:
            continue
        device = DeviceID(result.driver, result.pool, result.device)
        own.append(device)
        whole = usage.exclusive.get(device, ())
        others = usage.holders(device) if claim in whole else whole
        for other in others:
            if other != claim:
                found.setdefault(other, Contest(device, other, True))
    if node in inventory.nodes:
        view = inventory.view(node)
        if view.layout.shareable or view.layout.counters:
            for contest in (*_overfull(inventory, view, own), *_overdrawn(inventory, view, own)):
                if contest.holder != claim:
                    found.setdefault(contest.holder, contest)
    return list(found.values())


def contest_text(device: DeviceID, claim: ObjectKey, other: ObjectKey) -> str:
    """Return the reason for the users of ``claim``, which must not name objects of another namespace.

    >>> contest_text(DeviceID("d", "p", "gpu-0"), ObjectKey("ml", "a"), ObjectKey("ml", "b"))
    'device d/p/gpu-0 of claim ml/a was also allocated to claim ml/b'
    >>> contest_text(DeviceID("d", "p", "gpu-0"), ObjectKey("ml", "a"), ObjectKey("other", "b"))
    'device d/p/gpu-0 of claim ml/a was also allocated to a claim of another namespace'
    """
    holder = f"claim {other}" if other.namespace == claim.namespace else "a claim of another namespace"
    return f"device {device} of claim {claim} was also allocated to {holder}"


def devices_of(claim: dict[str, Any]) -> list[DeviceID]:
    """Return the devices allocated to a claim according to its status."""
    results = (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results") or ()
    return [DeviceID(result["driver"], result["pool"], result["device"]) for result in results]


def _overfull(inventory: Inventory, view: NodeView, devices: list[DeviceID]) -> Iterable[Contest]:
    """Return the shareable devices whose consumed capacity exceeds their capacity, with all holders."""
    usage = inventory.usage
    for slot, amounts in view.state(usage).consumed:
        record = view.records[slot]
        if record.id in devices and any(
            amount > limit for amount, limit in zip(amounts, record.traits.limits.values(), strict=True)
        ):
            yield from (Contest(record.id, holder, False) for holder in usage.holders(record.id))


def _overdrawn(inventory: Inventory, view: NodeView, devices: list[DeviceID]) -> Iterable[Contest]:
    """Return the devices that consume overdrawn counters, with all holders of these counters."""
    usage, layout = inventory.usage, view.layout
    empty = {number for number, left in enumerate(available(layout, view.state(usage))) if left < 0}
    if not empty:
        return
    uses = {record.id: {number for number, _ in layout.uses[slot]} & empty for slot, record in enumerate(view.records)}
    for device in devices:
        for other, counters in uses.items():
            if counters & uses.get(device, set()):
                yield from (Contest(device, holder, False) for holder in usage.holders(other))
