"""The caches of a process: each resource is listed, watched and decoded once for all programs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, TypeVar

from allotment.cluster.cache import Cache
from allotment.cluster.client import Client, Resource
from allotment.cluster.clock import Clock
from allotment.model.trees import Tree

T = TypeVar("T")


class Caches:
    """One cache per resource for all programs of a process."""

    def __init__(self, client: Client, *, clock: Clock, random: Random) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._caches: dict[Resource, Cache[Any]] = {}
        self._start: Callable[[Cache[Any]], None] | None = None

    def of(self, resource: Resource, type: type[T] | None = None) -> Cache[T]:
        """The cache of a resource, started on first use."""
        cache = self._caches.get(resource)
        if cache is None:
            cache = self._caches[resource] = Cache(self._client, resource, type, clock=self._clock, random=self._random)
            if self._start is not None:
                self._start(cache)
        elif type is not None:
            cache = cache.typed(type)
        return cache

    def trees(self, resource: Resource) -> Cache[Tree]:
        """The cache of a resource for readers of trees only."""
        return self.of(resource)

    def known(self) -> Iterable[Cache[Any]]:
        """The caches in use."""
        return tuple(self._caches.values())

    async def run(self) -> None:
        """Keep all caches current until cancelled."""
        async with asyncio.TaskGroup() as group:

            def start(cache: Cache[Any]) -> None:
                group.create_task(cache.run(), name=f"cache {cache.resource.plural}")

            for cache in self._caches.values():
                start(cache)
            self._start = start
            try:
                await asyncio.Event().wait()
            finally:
                self._start = None


async def all_synced(*caches: Cache[Any]) -> None:
    """Wait until each cache has been listed once."""
    for cache in caches:
        await cache.synced.wait()
