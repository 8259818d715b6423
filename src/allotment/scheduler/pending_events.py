"""What has happened since the scheduler last looked, and whether there is anything to do at all."""

from __future__ import annotations

import asyncio

from allotment.scheduler.cluster_events import Happening


class News:
    """Told by all who learn something, taken by the one who decides."""

    def __init__(self) -> None:
        self._happened: set[Happening] = set()
        self._arrived = asyncio.Event()

    def happened(self, happening: Happening) -> None:
        """Something changed that may help pods that wait."""
        self._happened.add(happening)
        self._arrived.set()

    def wake(self) -> None:
        """There is something to do, though nothing happened."""
        self._arrived.set()

    def take(self) -> frozenset[Happening]:
        """All that happened since the last time."""
        taken = frozenset(self._happened)
        self._happened.clear()
        return taken

    def looked(self) -> bool:
        """There is nothing to do any more; False if something happened meanwhile."""
        self._arrived.clear()
        return not self._happened

    async def wait(self) -> None:
        """Until there is something to do."""
        await self._arrived.wait()
