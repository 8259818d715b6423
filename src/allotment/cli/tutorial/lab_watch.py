"""Follows the objects of the tutorial's lab through its API, as any client does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from types import TracebackType

from allotment.cli.live.connection import connected
from allotment.cli.tutorial.lab_objects import LabObjects
from allotment.cluster.cache import Cache
from allotment.cluster.caches import Caches, all_synced
from allotment.cluster.clock import Clock
from allotment.cluster.remote.kubeconfig import target
from allotment.cluster.resources import CLAIMS, PODS, SLICES
from allotment.lab.sync import LoopThread
from allotment.model.core import Pod
from allotment.model.resource import ResourceClaim, ResourceSlice


class LabWatch:
    """A context manager that calls ``changed`` after each change, in another thread."""

    def __init__(self, kubeconfig: Path, changed: Callable[[], None]) -> None:
        self._kubeconfig = kubeconfig
        self._changed = changed
        self._thread = LoopThread("allotment-tutorial")
        self._open = AsyncExitStack()
        self._pods: Cache[Pod]
        self._claims: Cache[ResourceClaim]
        self._slices: Cache[ResourceSlice]

    def __enter__(self) -> LabWatch:
        try:
            self._thread.wait(self._start())
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._thread.wait(self._open.aclose())
        finally:
            self._thread.stop()

    def objects(self) -> LabObjects:
        """Return the current objects."""
        return self._thread.wait(self._read())

    async def _start(self) -> None:
        client = await self._open.enter_async_context(connected(target([self._kubeconfig])))
        caches = Caches(client, clock=Clock(), random=Random())
        self._pods = caches.of(PODS, Pod)
        self._claims = caches.of(CLAIMS, ResourceClaim)
        self._slices = caches.of(SLICES, ResourceSlice)
        for cache in caches.known():
            cache.on_change(lambda old, new: self._changed())
        following = asyncio.create_task(caches.run())

        async def end() -> None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

        self._open.push_async_callback(end)
        await all_synced(*caches.known())

    async def _read(self) -> LabObjects:
        return LabObjects(tuple(self._pods.values()), tuple(self._claims.values()), tuple(self._slices.values()))
