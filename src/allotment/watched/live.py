"""``LiveFeed``: publishes the views of a running cluster, which it lists and watches.

Changes are collected for some milliseconds and decoded in a thread. A cluster that does not respond keeps its last
view, with the reason; it is read again as soon as it responds, or as a new one as soon as its address, authority or
credentials are configured differently. A kind that the user may not read in all namespaces is read in that of the
context; one that may not be read at all is named in the view.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from math import inf
from random import Random
from typing import Any, Final, Protocol, TypeAlias

from allotment.cluster.backoff import Backoff
from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock, stamp
from allotment.cluster.converting_client import ConvertingClient
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.inspection.discovery import discover
from allotment.cluster.inspection.server_facts import Source, facts_of
from allotment.cluster.remote.version_negotiation import ServedVersions
from allotment.model.meta import ObjectKey
from allotment.model.server_facts import ServerFacts
from allotment.tools.unread import outside_of
from allotment.watched.builder import ClusterIdentity, ConnectionState, ViewBuilder
from allotment.watched.keyed_objects import packed
from allotment.watched.kinds import KINDS, WatchedKind
from allotment.watched.view import ClusterView

#: Seconds between two views, so that many changes together cost as one.
_COALESCE: Final = 0.05
#: Seconds between two attempts to reach a cluster, at most.
_RETRY: Final = 4.0
#: Seconds between two checks whether the cluster is configured differently.
_REREAD: Final = 1.0
_FORBIDDEN: Final = "forbidden"
#: The request in the text of an error.
_REQUEST: Final = re.compile(r"^[A-Z]+ (https?://[^/\s]+)\S*(?=: )")


class WatchClient(Client, Source, Protocol):
    """A client that can also read and stream any path."""


#: Returns a new client, to be closed at the end.
Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[WatchClient]]


class _KindCaches:
    """The caches of one kind: of all namespaces and, if that is forbidden, of the user's namespace."""

    def __init__(self, kind: WatchedKind, everywhere: Cache[Any]) -> None:
        self.kind = kind
        self.everywhere = everywhere
        self.inside: Cache[Any] | None = None

    @property
    def caches(self) -> tuple[Cache[Any], ...]:
        return (self.everywhere,) if self.inside is None else (self.everywhere, self.inside)

    def unread(self, namespace: str) -> str:
        """The reason why not all objects are known; empty if they are, or if the cluster does not serve the kind."""
        last = self.caches[-1]
        if last.not_read == "unknown-version":
            return last.unreadable
        if self.everywhere.not_read != _FORBIDDEN:
            return ""
        return outside_of(namespace, _FORBIDDEN) if last.not_read != _FORBIDDEN else _FORBIDDEN

    @property
    def is_settled(self) -> bool:
        """Whether it is known what can be read."""
        return all(cache.synced.is_set() or cache.not_read == _FORBIDDEN for cache in self.caches)


class ViewStore(Protocol):
    """Has the newest view: `WatchedCluster`."""

    def view(self) -> ClusterView:
        """Return the newest view."""
        ...

    def publish(self, view: ClusterView) -> None:
        """Make ``view`` the newest one."""
        ...


class LiveFeed:
    """The views of a cluster. ``namespace``: the one that the user may be restricted to.

    ``has_moved``: whether ``connect`` will use another address, authority or credentials than at its last call.
    """

    def __init__(
        self, connect: Connect, identity: ClusterIdentity, namespace: str = "", *,
        revision: int = 0, clock: Clock | None = None, random: Random | None = None,
        has_moved: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        self._connect = connect
        self._moved = has_moved
        self._checked = -inf
        self._identity = identity
        self._namespace = namespace
        self._clock = clock or Clock()
        self._random = random or Random()
        self.builder = ViewBuilder(identity, revision)
        self._kinds: list[_KindCaches] = []
        self._start: Callable[[WatchedKind, str], Cache[Any]]
        self._changed: dict[tuple[WatchedKind, ObjectKey], bytes | None] = {}
        self._dirty = asyncio.Event()
        self._facts = ServerFacts()

    async def run(self, store: ViewStore) -> None:
        """Publish views until cancelled."""
        with ThreadPoolExecutor(1, "cluster view") as worker:
            while True:
                async with self._connect() as client:
                    if await self._reach(client, store, worker):
                        await self._follow(client, store, worker)

    async def _follow(self, client: WatchClient, store: ViewStore, worker: ThreadPoolExecutor) -> None:
        """Publish the views of a cluster until it is configured differently."""
        if self._kinds:
            # It may be another cluster, with other objects of the same names and revisions. A revision is skipped, so
            # that nothing is taken for unchanged.
            self.builder, self._changed = ViewBuilder(self._identity, store.view().revision + 1), {}
        reader = ConvertingClient(client, ServedVersions(client))
        running: list[asyncio.Task[None]] = []
        async with asyncio.TaskGroup() as group:

            def start(kind: WatchedKind, namespace: str) -> Cache[Any]:
                cache = self._cache(reader, kind, namespace)
                running.append(group.create_task(cache.run(), name=f"cache {kind.resource.plural}"))
                return cache

            self._start = start
            self._kinds = [_KindCaches(kind, start(kind, "")) for kind in KINDS]
            await self._publish_changes(client, store, worker)
            for task in running:
                task.cancel()

    # --- connecting --------------------------------------------------------------------------------------------------

    async def _reach(self, client: WatchClient, store: ViewStore, worker: ThreadPoolExecutor) -> bool:
        """Read the facts about the server; meanwhile, publish why that fails. Return False if it has moved."""
        backoff = Backoff(self._random, longest=_RETRY)
        while error := await self._read_facts(client):
            if store.view().error != error:
                await self._publish(store, worker, ConnectionState(error=error))
            if self._has_moved():
                return False
            await self._clock.sleep(backoff.next())
        return True

    def _has_moved(self) -> bool:
        if self._clock.seconds() - self._checked < _REREAD:
            return False
        self._checked = self._clock.seconds()
        return self._moved()

    async def _read_facts(self, client: WatchClient) -> str:
        """Read the facts about the server; return why that failed."""
        try:
            self._facts = await facts_of(client, await discover(client), self._clock.now())
        except (StatusError, Unreachable) as error:
            return _cannot_read(str(error))
        return ""

    def _cache(self, reader: Client, kind: WatchedKind, namespace: str) -> Cache[Any]:
        cache: Cache[Any] = Cache(
            reader, kind.resource, clock=self._clock, random=self._random, namespace=namespace, fields=kind.fields,
            longest_wait=_RETRY,
        )  # fmt: skip
        cache.on_change(partial(self._record, kind))
        cache.on_state(self._dirty.set)
        return cache

    def _record(self, kind: WatchedKind, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        item = new or old
        assert item is not None
        # Trees take ten times the memory of all that follows from them, so they are packed immediately.
        self._changed[kind, ObjectKey(*item.key)] = packed(new.tree) if new is not None else None
        if new is not None:
            new.drop_tree()
        self._dirty.set()

    # --- publishing --------------------------------------------------------------------------------------------------

    async def _publish_changes(self, client: WatchClient, store: ViewStore, worker: ThreadPoolExecutor) -> None:
        published: ConnectionState | None = None
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            self._look_inside()
            state = self._state()
            if state.error and self._has_moved():
                return
            if not state.error and not all(kinds.is_settled for kinds in self._kinds):
                continue  # a partial view would show devices without their users
            if published is not None and published.error and not state.error:
                await self._read_facts(client)  # it may be another release now
                state = state._replace(facts=self._facts)
            if published is not None and published.without_time() == state.without_time() and not self._changed:
                continue
            started = self._clock.seconds()
            await self._publish(store, worker, state)
            published = state
            # At most a third of the time is spent on views.
            await self._clock.sleep(max(_COALESCE, 2 * (self._clock.seconds() - started)))

    async def _publish(self, store: ViewStore, worker: ThreadPoolExecutor, state: ConnectionState) -> None:
        changed, self._changed = self._changed, {}
        loop = asyncio.get_running_loop()
        view = await loop.run_in_executor(worker, self.builder.next, changed, state)
        if view is not None:
            store.publish(view)

    def _look_inside(self) -> None:
        """Read the kinds that are forbidden in all namespaces in the namespace of the user."""
        for kinds in self._kinds:
            everywhere = kinds.everywhere
            is_possible = self._namespace and kinds.inside is None and everywhere.resource.namespaced
            if is_possible and everywhere.not_read == _FORBIDDEN and not everywhere.synced.is_set():
                kinds.inside = self._start(kinds.kind, self._namespace)

    def _state(self) -> ConnectionState:
        refused = {kinds.kind.resource.plural: kinds.unread(self._namespace) for kinds in self._kinds}
        failures = [cache.failure for cache in self._caches() if cache.failure]
        seen = max((cache.last_response for cache in self._caches()), default=-inf)
        moment = self._clock.moment()
        if failures and seen > -inf:
            moment -= timedelta(seconds=(self._clock.seconds() - seen) / self._clock.speed)
        return ConnectionState(
            self._facts, {plural: why for plural, why in refused.items() if why}, stamp(moment),
            _cannot_read(failures[0]) if failures else "",
        )  # fmt: skip

    def _caches(self) -> Iterator[Cache[Any]]:
        for kinds in self._kinds:
            yield from kinds.caches


def _cannot_read(error: str) -> str:
    """Return a sentence without the path of the request.

    >>> _cannot_read("GET https://10.0.0.1:6443/api/v1/pods?limit=500: connection refused")
    'the cluster cannot be read: https://10.0.0.1:6443: connection refused'
    """
    return f"the cluster cannot be read: {_REQUEST.sub(lambda request: request[1], error)}"
