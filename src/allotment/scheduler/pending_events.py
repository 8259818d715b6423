"""Cluster events since the scheduler last checked, and a wake-up signal for its loop."""

from __future__ import annotations

import asyncio

from allotment.scheduler.cluster_events import ClusterEvent


class PendingEvents:
    """Collects events from all sources for the scheduling loop."""

    def __init__(self) -> None:
        self._events: set[ClusterEvent] = set()
        self._arrived = asyncio.Event()

    def add(self, event: ClusterEvent) -> None:
        """Add an event that can make pending pods schedulable."""
        self._events.add(event)
        self._arrived.set()

    def wake(self) -> None:
        """Wake the scheduling loop without an event."""
        self._arrived.set()

    def take(self) -> frozenset[ClusterEvent]:
        """Return and clear the events since the last call."""
        taken = frozenset(self._events)
        self._events.clear()
        return taken

    def try_clear(self) -> bool:
        """Reset the wake-up signal; return False if there are unprocessed events."""
        self._arrived.clear()
        return not self._events

    async def wait(self) -> None:
        """Wait until there is work."""
        await self._arrived.wait()
