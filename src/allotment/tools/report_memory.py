"""``ReportMemory``: what a report on devices keeps for the next one, of which only changed nodes are computed again.

These are the nodes, and which of the allocated devices a slice publishes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from allotment.engine.cluster.identity import DeviceID
from allotment.model.meta import ObjectKey
from allotment.model.resource import AllocationResult


class _SeenDevices(Protocol):
    """What is known of a node."""

    @property
    def seen(self) -> frozenset[DeviceID]:
        """All devices of the node."""
        ...


N = TypeVar("N", bound=_SeenDevices)


class ReportMemory(Generic[N]):
    """``nodes``: those that are known; one that changed is removed before the next report. Used by one thread."""

    def __init__(self) -> None:
        self.nodes: dict[str, N] = {}
        self._seen: dict[str, frozenset[DeviceID]] = {}
        self._published: set[DeviceID] = set()
        self._allocations: dict[ObjectKey, AllocationResult] = {}
        self._missing: dict[ObjectKey, tuple[DeviceID, ...]] = {}
        """The devices of claims that no slice publishes; hardly any claim has one."""

    def unpublished(
        self, nodes: Iterable[str], allocations: Mapping[ObjectKey, AllocationResult]
    ) -> Iterator[tuple[ObjectKey, DeviceID]]:
        """Yield the allocated devices that none of the nodes sees, with the claims that hold them."""
        if self._see({node: self.nodes[node].seen for node in nodes}):
            self._allocations.clear()
        known = self._allocations
        for key, allocation in allocations.items():
            if known.get(key) is not allocation:
                known[key] = allocation
                self._missing[key] = tuple(each for each in _devices_of(allocation) if each not in self._published)
        for key in known.keys() - allocations.keys() if len(known) > len(allocations) else ():
            del known[key]
        self._missing = {key: devices for key, devices in self._missing.items() if devices and key in known}
        for key in allocations if self._missing else ():
            for device in self._missing.get(key, ()):
                yield key, device

    def _see(self, seen: dict[str, frozenset[DeviceID]]) -> bool:
        """Record which devices each node sees; return whether other ones than before are published.

        A node whose claims changed sees the same devices as before.
        """
        if seen == self._seen:
            return False
        is_more = all(node in seen and seen[node] >= devices for node, devices in self._seen.items())
        if not is_more:
            self._published = set()
        for node, devices in seen.items():
            if not is_more or self._seen.get(node) != devices:
                self._published |= devices
        self._seen = seen
        return True


def _devices_of(allocation: AllocationResult) -> tuple[DeviceID, ...]:
    return tuple(dict.fromkeys(DeviceID(each.driver, each.pool, each.device) for each in allocation.devices.results))
