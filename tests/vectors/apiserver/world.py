"""A fresh lab to replay a recording on: no nodes of its own, every gate of the recordings, time runs faster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from allotment.apiserver.http_messages import Answer, Request
from allotment.apiserver.storage.store import Store
from allotment.lab.control_plane import Plane, running
from allotment.lab.settings import Settings
from allotment.model.features import GATES, Features

RELEASE = "1.36"
SPEED = 20.0
#: The control plane has come to rest when nothing was written for so long.
_REST_SECONDS = 0.04
_MOST_SECONDS = 30.0
_LOOK_SECONDS = 0.01


class World:
    """A running control plane, asked without sockets."""

    #: Waits run much faster there than the wall's clock.
    patience_seconds = 20.0
    draws_lots = False

    def __init__(self, plane: Plane) -> None:
        self.store: Store = plane.store
        self._plane = plane

    @staticmethod
    @asynccontextmanager
    async def started(speed: float = SPEED) -> AsyncIterator[World]:
        """A fresh one, gone at the end."""
        gates = {gate: True for gate, releases in GATES.items() if RELEASE in releases}
        settings = Settings(name="vectors", fleet=(), speed=speed, features=Features(RELEASE, gates))
        async with running(settings) as plane:
            world = World(plane)
            await world.settled()
            yield world

    async def ask(self, request: Request) -> Answer:
        """One request, answered."""
        return await self._plane.api(request)

    async def settled(self, rest: float = _REST_SECONDS) -> None:
        """Wait until nothing has changed for so long, and in so many looks, for time goes by on a machine that has no
        time for us, too."""
        loop = asyncio.get_running_loop()
        latest = loop.time() + _MOST_SECONDS
        revision, looks = self.store.revision, 0
        while looks < rest / _LOOK_SECONDS and loop.time() < latest:
            await asyncio.sleep(_LOOK_SECONDS)
            looks = looks + 1 if self.store.revision == revision else 0
            revision = self.store.revision
