"""What allocated claims hold: devices taken whole, shares of shareable ones, and the capacity consumed of them.

Derived from ``status.allocation`` exactly as the scheduler does: a result with admin access holds nothing (KEP-5018);
one with a share ID holds a share (KEP-5075), if DRAConsumableCapacity is on; any other holds its device whole. The
holder is kept, so that a reason can name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from allotment.engine.cluster.identity import DeviceID
from allotment.model.meta import ObjectKey
from allotment.model.resource import AllocationResult, DeviceRequestAllocationResult

_NO_CAPACITY: Mapping[str, int] = {}


class DeviceShare(NamedTuple):
    """One claim's share of a shareable device; amounts in nano, ``None`` if the result names no capacity."""

    claim: ObjectKey
    share_id: str
    consumed: Mapping[str, int] | None


class Usage:
    """Allocations by claim and by device, kept up to date by increments."""

    def __init__(self, shares_known: bool) -> None:
        self._shares_enabled = shares_known
        self.allocations: dict[ObjectKey, AllocationResult] = {}
        #: Claims that hold a device whole; more than one only if the cluster's own state contradicts itself.
        self.exclusive: dict[DeviceID, tuple[ObjectKey, ...]] = {}
        self.shares: dict[DeviceID, tuple[DeviceShare, ...]] = {}
        #: Sum of what the shares of a device consume; an entry exists if any share names its capacity.
        self.consumed: dict[DeviceID, Mapping[str, int]] = {}

    def holders(self, device: DeviceID) -> tuple[ObjectKey, ...]:
        """Every claim that holds the device or a share of it."""
        return self.exclusive.get(device, ()) + tuple(share.claim for share in self.shares.get(device, ()))

    def is_allocated(self, device: DeviceID) -> bool:
        """Whether the device counts as allocated for its counters."""
        return device in self.exclusive or device in self.shares

    def add(self, claim: ObjectKey, allocation: AllocationResult) -> list[DeviceID]:
        """Book a claim's allocation; returns the devices whose state changed. The claim must not be booked yet."""
        if claim in self.allocations:
            raise ValueError(f"claim {claim} is already allocated")
        self.allocations[claim] = allocation
        return [self._add_result(claim, result) for result in self._holding_results(allocation)]

    def remove(self, claim: ObjectKey) -> list[DeviceID]:
        """Give back what a claim holds; returns the devices whose state changed. An unknown claim holds nothing."""
        allocation = self.allocations.pop(claim, None)
        if allocation is None:
            return []
        return [self._remove_result(claim, result) for result in self._holding_results(allocation)]

    def _holding_results(self, allocation: AllocationResult) -> Iterable[DeviceRequestAllocationResult]:
        return (result for result in allocation.devices.results if not result.admin_access)

    def _add_result(self, claim: ObjectKey, result: DeviceRequestAllocationResult) -> DeviceID:
        device = DeviceID(result.driver, result.pool, result.device)
        if result.share_id is None or not self._shares_enabled:
            self.exclusive[device] = (*self.exclusive.get(device, ()), claim)
            return device
        consumed = {name: amount.nano for name, amount in result.consumed_capacity.items()} or None
        self.shares[device] = (*self.shares.get(device, ()), DeviceShare(claim, result.share_id, consumed))
        self._sum(device)
        return device

    def _remove_result(self, claim: ObjectKey, result: DeviceRequestAllocationResult) -> DeviceID:
        device = DeviceID(result.driver, result.pool, result.device)
        if result.share_id is None or not self._shares_enabled:
            holders = list(self.exclusive[device])
            holders.remove(claim)
            if holders:
                self.exclusive[device] = tuple(holders)
            else:
                del self.exclusive[device]
            return device
        shares = list(self.shares[device])
        shares.remove(next(s for s in shares if s.claim == claim and s.share_id == result.share_id))
        if shares:
            self.shares[device] = tuple(shares)
        else:
            del self.shares[device]
        self._sum(device)
        return device

    def _sum(self, device: DeviceID) -> None:
        total: dict[str, int] = {}
        named = False
        for share in self.shares.get(device, ()):
            if share.consumed is not None:
                named = True
                for name, amount in share.consumed.items():
                    total[name] = total.get(name, 0) + amount
        if named:
            self.consumed[device] = total
        else:
            self.consumed.pop(device, None)

    def remaining(self, device: DeviceID, limits: Mapping[str, int]) -> dict[str, int]:
        """What is left of each capacity; negative if the device shrank below what is consumed."""
        consumed = self.consumed.get(device, _NO_CAPACITY)
        return {name: limit - consumed.get(name, 0) for name, limit in limits.items()}
