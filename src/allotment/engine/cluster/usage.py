"""Usage of devices by allocated claims: exclusive devices, shares of shareable ones, and their consumed capacity.

Derived from ``status.allocation`` as in the scheduler: a result with admin access holds nothing (KEP-5018); one with a
share ID holds a share (KEP-5075) if DRAConsumableCapacity is on; any other one holds its device exclusively. The
holding claims are recorded so that reasons can name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from allotment.engine.cluster.identity import DeviceID
from allotment.model.meta import ObjectKey
from allotment.model.resource import AllocationResult, DeviceRequestAllocationResult

_NO_CAPACITY: Mapping[str, int] = {}


class DeviceShare(NamedTuple):
    """A claim's share of a shareable device; amounts in nano units, ``None`` if the result names no capacity."""

    claim: ObjectKey
    share_id: str
    consumed: Mapping[str, int] | None


class Usage:
    """Allocations by claim and by device, updated incrementally."""

    def __init__(self, shares_enabled: bool) -> None:
        self._shares_enabled = shares_enabled
        self.allocations: dict[ObjectKey, AllocationResult] = {}
        #: Claims that hold a device exclusively; more than one only if the cluster's state is inconsistent.
        self.exclusive: dict[DeviceID, tuple[ObjectKey, ...]] = {}
        self.shares: dict[DeviceID, tuple[DeviceShare, ...]] = {}
        #: Capacity consumed by all shares of a device; an entry exists if any share names its capacity.
        self.consumed: dict[DeviceID, Mapping[str, int]] = {}

    def holders(self, device: DeviceID) -> tuple[ObjectKey, ...]:
        """The claims that hold the device or a share of it."""
        return self.exclusive.get(device, ()) + tuple(share.claim for share in self.shares.get(device, ()))

    def is_allocated(self, device: DeviceID) -> bool:
        """Whether the device, or a share of it, is allocated, so that it consumes its counters."""
        return device in self.exclusive or device in self.shares

    def add(self, claim: ObjectKey, allocation: AllocationResult) -> list[DeviceID]:
        """Add a claim's allocation and return the devices whose state changed; ``ValueError`` if it has one."""
        if claim in self.allocations:
            raise ValueError(f"claim {claim} is already allocated")
        self.allocations[claim] = allocation
        return [self._add_result(claim, result) for result in self._holding_results(allocation)]

    def remove(self, claim: ObjectKey) -> list[DeviceID]:
        """Remove a claim's allocation, if any, and return the devices whose state changed."""
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
        """The remaining amount of each capacity; negative if the device shrank below the consumed amount."""
        consumed = self.consumed.get(device, _NO_CAPACITY)
        return {name: limit - consumed.get(name, 0) for name, limit in limits.items()}
