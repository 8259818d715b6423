"""The ComputeDomains of the cluster, as drivers look them up."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, Protocol

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem, by_uid
from allotment.cluster.clock import Clock


class ComputeDomain(NamedTuple):
    """A ComputeDomain. ``ready``: the nodes with a ready daemon."""

    uid: str
    namespace: str
    name: str
    ready: frozenset[str] = frozenset()


class DomainLookup(Protocol):
    """Looks up ComputeDomains by uid."""

    def find(self, uid: str) -> ComputeDomain | None:
        """The domain with a uid; None if it does not exist or is being deleted."""
        ...

    async def wait(self, uid: str, node: str, seconds: float) -> bool:
        """Wait at most ``seconds`` until a node is ready in a domain; returns whether it is."""
        ...


class CachedDomains:
    """ComputeDomains from an informer cache."""

    def __init__(self, cache: Cache[Any], clock: Clock) -> None:
        self._cache = cache
        self._clock = clock
        self._by_uid = cache.index("uid", by_uid)

    def find(self, uid: str) -> ComputeDomain | None:
        for item in self._by_uid[uid]:
            if not item.deleting:
                nodes = item.status.get("nodes") or ()
                ready = frozenset(node["name"] for node in nodes if node.get("status") == "Ready")
                return ComputeDomain(uid, item.namespace, item.name, ready)
        return None

    async def wait(self, uid: str, node: str, seconds: float) -> bool:
        changed = asyncio.Event()
        timed_out = False

        def on_change(old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
            changed.set()

        def on_timeout() -> None:
            nonlocal timed_out
            timed_out = True
            changed.set()

        unsubscribe = self._cache.on_change(on_change)
        timer = self._clock.later(seconds, on_timeout)
        try:
            while True:
                domain = self.find(uid)
                if domain is not None and node in domain.ready:
                    return True
                if timed_out:
                    return False
                changed.clear()
                await changed.wait()
        finally:
            timer.cancel()
            unsubscribe()
