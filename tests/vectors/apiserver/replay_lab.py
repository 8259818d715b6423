"""A new lab for a recording: no nodes of its own, the features of the recorded server, and a fast clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from allotment.apiserver.http_messages import AnyResponse, Request
from allotment.apiserver.storage.store import Store
from allotment.lab.control_plane import Plane, running
from allotment.lab.settings import Settings
from tests.vectors.apiserver.recorded_servers import RecordedServer

SPEED = 20.0
#: The control plane is idle when nothing was written for this long.
_REST_SECONDS = 0.04
_MOST_SECONDS = 30.0
_LOOK_SECONDS = 0.01


class ReplayLab:
    """A running control plane, called without sockets."""

    #: Its clock runs much faster than real time.
    timeout_seconds = 20.0
    random_order = False

    def __init__(self, plane: Plane) -> None:
        self.store: Store = plane.store
        self.speed = plane.settings.speed
        self._plane = plane

    @staticmethod
    @asynccontextmanager
    async def started(server: RecordedServer, speed: float = SPEED) -> AsyncIterator[ReplayLab]:
        """Run a new one until the context ends."""
        settings = Settings(
            name="vectors", fleet=(), speed=speed, features=server.features, runtime_config=server.runtime_config
        )
        async with running(settings) as plane:
            lab = ReplayLab(plane)
            await lab.settle()
            yield lab

    async def request(self, request: Request) -> AnyResponse:
        return await self._plane.api(request)

    async def settle(self, rest: float = _REST_SECONDS) -> None:
        """Wait until nothing has changed for ``rest`` seconds and in several checks, because time also passes while a
        loaded machine does not run the lab."""
        loop = asyncio.get_running_loop()
        latest = loop.time() + _MOST_SECONDS
        revision, looks = self.store.revision, 0
        while looks < rest / _LOOK_SECONDS and loop.time() < latest:
            await asyncio.sleep(_LOOK_SECONDS)
            looks = looks + 1 if self.store.revision == revision else 0
            revision = self.store.revision
