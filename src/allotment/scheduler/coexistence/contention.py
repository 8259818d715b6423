"""Whether two claims were given what only one of them can have, which two schedulers can bring about.

Each claim is an object of its own, and nothing in the API joins them: the API server takes both. Contested are a device
that one claim holds whole and another holds, too; a shareable device of which more is consumed than it has (KEP-5075);
and a device that draws from counters which are overdrawn (KEP-4815).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from allotment.engine.cluster.identity import DeviceID
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.cluster.layout import NodeView, available
from allotment.model.meta import ObjectKey


class Contest(NamedTuple):
    """A device of a claim, and another claim that was given it, or what it is made of."""

    device: DeviceID
    holder: ObjectKey
    whole: bool
    """Whether one of them holds it whole; else what it has, or is made of, is not enough for all."""


def contests(inventory: Inventory, claim: ObjectKey, node: str = "") -> list[Contest]:
    """Who else holds what a claim holds; with admin access a claim uses devices and holds nothing.

    ``node``: where its devices are used. Capacity and counters are looked at as that node sees them; without a node
    that is known only whole devices are.
    """
    usage = inventory.usage
    allocation = usage.allocations.get(claim)
    if allocation is None:
        return []
    found: dict[ObjectKey, Contest] = {}
    mine: list[DeviceID] = []
    for result in allocation.devices.results:
        if result.admin_access:
            continue
        device = DeviceID(result.driver, result.pool, result.device)
        mine.append(device)
        whole = usage.exclusive.get(device, ())
        others = usage.holders(device) if claim in whole else whole
        for other in others:
            if other != claim:
                found.setdefault(other, Contest(device, other, True))
    if node in inventory.nodes:
        view = inventory.view(node)
        if view.layout.shareable or view.layout.counters:
            for contest in (*_overfull(inventory, view, mine), *_overdrawn(inventory, view, mine)):
                if contest.holder != claim:
                    found.setdefault(contest.holder, contest)
    return list(found.values())


def devices_of(claim: dict[str, Any]) -> list[DeviceID]:
    """The devices that a claim has been given, as the cluster has it."""
    results = (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results") or ()
    return [DeviceID(result["driver"], result["pool"], result["device"]) for result in results]


def _overfull(inventory: Inventory, view: NodeView, devices: list[DeviceID]) -> Iterable[Contest]:
    """Shareable devices of which more is consumed than there is."""
    usage = inventory.usage
    for slot, amounts in view.state(usage).consumed:
        record = view.records[slot]
        if record.id in devices and any(
            amount > limit for amount, limit in zip(amounts, record.traits.limits.values(), strict=True)
        ):
            yield from (Contest(record.id, holder, False) for holder in usage.holders(record.id))


def _overdrawn(inventory: Inventory, view: NodeView, devices: list[DeviceID]) -> Iterable[Contest]:
    """Devices that draw from counters with less than nothing left, by all that draw from them."""
    usage, layout = inventory.usage, view.layout
    empty = {number for number, left in enumerate(available(layout, view.state(usage))) if left < 0}
    if not empty:
        return
    uses = {record.id: {number for number, _ in layout.uses[slot]} & empty for slot, record in enumerate(view.records)}
    for device in devices:
        for other, counters in uses.items():
            if counters & uses.get(device, set()):
                yield from (Contest(device, holder, False) for holder in usage.holders(other))
