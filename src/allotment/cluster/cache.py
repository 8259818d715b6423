"""A cache of all objects of a resource with secondary indexes, kept current by list and watch, for all its readers.

A cache lists once and then watches. A watch that ends is resumed where it stopped; if its revision has expired (410),
the cache lists again and reports the differences. It does the same if the cluster is at an earlier revision than
before: its store was restored from a backup, and a watch from a future revision would return no events. Callbacks run
synchronously and in order, see the cache as the change left it, and must only enqueue work.

Revisions are compared as numbers, which Kubernetes guarantees since 1.35. This makes :meth:`Cache.record_write` safe: a
program stores the response to its own write immediately and never acts on a state that it has itself replaced, and an
older watch event cannot undo it.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from math import inf
from random import Random
from typing import Any, Generic, Literal, TypeVar, cast

from allotment.cluster.backoff import Backoff
from allotment.cluster.cached_item import CachedItem, revision_number
from allotment.cluster.client import Client, Resource
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, UnknownVersions, Unreachable
from allotment.model.trees import Tree

T = TypeVar("T")

KeysOf = Callable[["CachedItem[T]"], Iterable[Hashable]]


class Index(Generic[T]):
    """A secondary index: items by the keys that a function returns, such as pods by node.

    A change that keeps its keys costs one call of the function.
    """

    __slots__ = ("_by_key", "_items", "_keys", "_keys_of")

    def __init__(self, keys_of: KeysOf[T], items: Mapping[tuple[str, str], CachedItem[T]]) -> None:
        self._keys_of = keys_of
        self._items = items
        self._keys: dict[tuple[str, str], tuple[Hashable, ...]] = {}
        self._by_key: dict[Hashable, dict[tuple[str, str], None]] = {}

    def __getitem__(self, key: Hashable) -> Collection[CachedItem[T]]:
        """Items with a key, in undefined order; empty if there are none."""
        found = self._by_key.get(key)
        return [self._items[name] for name in found] if found else ()

    def count(self, key: Hashable) -> int:
        """The number of items with a key, in constant time."""
        return len(self._by_key.get(key, ()))

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def __iter__(self) -> Iterator[Any]:
        """The keys that have items."""
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def change(self, old: CachedItem[T] | None, new: CachedItem[T] | None) -> None:
        """Apply a change; called by the cache."""
        item = new or old
        assert item is not None
        before = self._keys.get(item.key, ())
        after: tuple[Hashable, ...] = tuple(self._keys_of(new)) if new is not None else ()
        if before == after:
            return
        for key in before:
            names = self._by_key.get(key) if key not in after else None
            if names is not None:  # the function may return a key twice
                names.pop(item.key, None)
                if not names:
                    del self._by_key[key]
        for key in after:
            self._by_key.setdefault(key, {})[item.key] = None
        if after:
            self._keys[item.key] = after
        else:
            del self._keys[item.key]


V = TypeVar("V")

log = logging.getLogger(__name__)

#: A watch that ran this long does not count as a failure, however it ended.
_HEALTHY_SECONDS = 5.0
#: Seconds between two lists of a resource that may be listed but not watched.
_RELIST_SECONDS = 30.0
#: Seconds until a resource that is no longer served counts as removed: during an upgrade, one of several servers may
#: not know it.
_GONE_SECONDS = 60.0

#: Why a cache does not read its objects; empty if it does.
NotRead = Literal["", "not-served", "forbidden", "unknown-version"]

Changed = Callable[["CachedItem[T] | None", "CachedItem[T] | None"], None]


class Cache(Generic[T]):
    """A cache of one resource. Run :meth:`run` in a task, or get the cache from ``Caches``, which does so."""

    def __init__(
        self, client: Client, resource: Resource, type: type[T] | None = None, *, clock: Clock, random: Random,
        namespace: str = "", labels: str = "", fields: str = "", longest_wait: float = 30.0,
    ) -> None:  # fmt: skip
        self.resource = resource
        self.synced = asyncio.Event()
        self._outage_logged: float | None = None
        """When it was last logged that the server is unreachable."""
        self.last_response = -inf
        """When the server last sent anything, in the clock's ``seconds``; a quiet watch gets bookmarks."""
        self.since = inf
        """Since when it has been current without interruption, in the clock's ``seconds``; infinite while it is not."""
        self.unreadable = ""
        """The reason why objects cannot be read (no known version is served), or empty; earlier objects stay."""
        self.not_read: NotRead = ""
        """The reason why no objects are read: the kind is not served, forbidden, or served only in unknown versions."""
        self.failure = ""
        """The reason why the server did not answer the last request; empty while it responds."""
        self.restored = 0
        """The number of new lists because the cluster was restored from a backup."""
        self._client = client
        self._type = type
        self._clock = clock
        self._backoff = Backoff(random, longest=longest_wait)
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._items: dict[tuple[str, str], CachedItem[T]] = {}
        self._indexes: dict[str, Index[T]] = {}
        self._callbacks: list[Changed[T]] = []
        self._state_callbacks: list[Callable[[], None]] = []
        # The revision up to which list and watch are complete; "" before the first list.
        self._revision = ""
        self._continues = False
        """Whether a watch from that revision returns all later changes."""
        self._restore_detected = False
        """Whether a restore was detected but not listed yet; the cluster may pass the old revision meanwhile."""
        self._unserved = inf
        """Since when the cluster has reported that it does not serve the resource."""
        self._is_refused = False
        """Whether the last list or watch was forbidden."""
        self._awaited: list[tuple[int, int, asyncio.Future[None]]] = []
        self._tickets = itertools.count()

    # --- reading ------------------------------------------------------------------------------------------------

    def item(self, namespace: str, name: str) -> CachedItem[T] | None:
        """The object with its tree, or None. The namespace of a cluster-scoped object is empty."""
        return self._items.get((namespace, name))

    def get(self, namespace: str, name: str) -> T | None:
        """The value of an object, or None."""
        item = self._items.get((namespace, name))
        return item.value if item else None

    def tree(self, namespace: str, name: str) -> Tree | None:
        """The tree of an object, or None."""
        item = self._items.get((namespace, name))
        return item.tree if item else None

    def items(self) -> Collection[CachedItem[T]]:
        """All objects with their trees."""
        return self._items.values()

    def values(self) -> Iterator[T]:
        """All objects' values."""
        return (item.value for item in self._items.values())

    def __len__(self) -> int:
        return len(self._items)

    def index(self, name: str, keys_of: KeysOf[T]) -> Index[T]:
        """The index with this name, built on first use."""
        index = self._indexes.get(name)
        if index is None:
            index = self._indexes[name] = Index(keys_of, self._items)
            for item in self._items.values():
                index.change(None, item)
        return index

    def on_change(self, callback: Changed[T]) -> Callable[[], None]:
        """Call ``callback(old, new)`` for all current objects and then for every change; None means absent.

        Returns a function that unregisters the callback. A deletion and a re-creation with the same name are two
        changes.
        """
        self._callbacks.append(callback)
        for item in tuple(self._items.values()):
            self._notify(callback, None, item)
        return lambda: self._callbacks.remove(callback)

    def on_state(self, callback: Callable[[], None]) -> None:
        """Call ``callback()`` after each list, and when ``failure``, ``not_read`` or ``unreadable`` may change."""
        self._state_callbacks.append(callback)

    # --- the programs' own writes ---------------------------------------------------------------------------------

    def record_write(self, tree: Tree) -> None:
        """Store the response to a write, ahead of the watch."""
        item = CachedItem(tree, self._type)
        known = self._items.get(item.key)
        if known is None and item.revision <= revision_number(self._revision):
            return  # the watch has passed this revision: the object was deleted again
        if known is None or known.revision < item.revision:
            self._put(known, item)

    def record_deletion(self, tree: Tree) -> None:
        """Remove the object of ``tree``, after a completed delete or a 404."""
        metadata = tree["metadata"]
        known = self._items.get((metadata.get("namespace", ""), metadata["name"]))
        if known is not None and known.uid == metadata.get("uid", ""):
            self._put(known, None)

    @property
    def revision(self) -> int:
        """The revision up to which list and watch are complete. Later writes get a later revision, unless the cluster
        was restored from a backup and this cache does not know yet."""
        return revision_number(self._revision)

    async def wait_for_revision(self, revision: str) -> None:
        """Wait until list and watch are complete up to a revision of this resource.

        A program uses this after a write to see what others wrote before it.
        """
        wanted = revision_number(revision)
        if revision_number(self._revision) < wanted:
            arrived = asyncio.get_running_loop().create_future()
            heapq.heappush(self._awaited, (wanted, next(self._tickets), arrived))
            await arrived

    def _advance(self, revision: str) -> None:
        """Record that list or watch are complete up to a revision."""
        self._revision = revision
        while self._awaited and self._awaited[0][0] <= revision_number(revision):
            arrived = heapq.heappop(self._awaited)[2]
            if not arrived.done():
                arrived.set_result(None)

    # --- following ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep the cache current until cancelled."""
        while True:
            start, wait = self._clock.seconds(), 0.0
            try:
                if self._continues:
                    self._continues = await self._is_not_restored()
                if not self._continues:
                    await self._list()
                await self._watch()
            except UnknownVersions as error:
                self._continues, self.since = False, inf
                self.unreadable, self.not_read = str(error), "unknown-version"  # logged by the client
                self.synced.set()
            except StatusError as error:
                if error.code == 404:
                    self._not_served()
                elif error.code == 410 or error.reason in ("Expired", "Gone"):
                    self._continues, self.since = False, inf
                else:
                    self.since = inf
                    is_known = error.code == 403 and self._is_refused
                    self._is_refused = error.code == 403
                    log.log(logging.DEBUG if is_known else logging.WARNING, "%s: %s", self.resource.plural, error)
                    if error.code != 403:
                        self.failure = str(error)
                    elif self._continues:  # a role may allow only lists: list again, but not all the time
                        self._continues, wait = False, _RELIST_SECONDS
                    else:
                        self.not_read = "forbidden"
            except Unreachable as error:
                self.since, self.failure = inf, str(error)
                # An outage is logged once: it may be long.
                is_new = self._outage_logged is None or self.last_response > self._outage_logged
                log.log(logging.INFO if is_new else logging.DEBUG, "%s: %s", self.resource.plural, error)
                self._outage_logged = self._clock.seconds()
            self._notify_state()
            if self._clock.seconds() - start >= _HEALTHY_SECONDS:
                self._backoff.reset()
            await self._clock.sleep(max(wait, self._backoff.next()))

    async def _list(self) -> None:
        listing = await self._client.list(
            self.resource, self._namespace, labels=self._labels, fields=self._fields, limit=500
        )
        self._record_response()
        self.unreadable = self.not_read = ""
        listed = {(item := self._item(tree)).key: item for tree in listing.items}
        revision = revision_number(listing.revision)
        if revision < revision_number(self._revision) and not self._restore_detected:
            self._note_restored(listing.revision)  # it was listed again for another reason, such as an expired revision
        restored, self._restore_detected = self._restore_detected, False
        self.restored += restored
        self._revision, self._continues, self._unserved = listing.revision, True, inf
        for key, known in tuple(self._items.items()):
            # An object recorded after the list was made is not in it, but exists.
            if key not in listed and (restored or known.revision <= revision):
                self._put(known, None)
        for key, item in listed.items():
            old = self._items.get(key)
            if old is None or restored or old.revision < item.revision:
                self._put(old, item)
        if restored:  # the awaited revisions may never be reached
            self._awaited = [(0, ticket, arrived) for _, ticket, arrived in self._awaited]
        self._advance(listing.revision)
        self.synced.set()
        self._notify_state()

    async def _is_not_restored(self) -> bool:
        """Whether the cluster has reached the revision of this cache, determined by a list without results."""
        namespace = self._namespace or ("default" if self.resource.namespaced else "")
        fields = self._fields or "metadata.name=none"  # a role may allow lists of a single object only
        listing = await self._client.list(self.resource, namespace, labels=self._labels, fields=fields)
        self._record_response()
        if revision_number(listing.revision) >= revision_number(self._revision):
            return True
        self._note_restored(listing.revision)
        return False

    def _note_restored(self, revision: str) -> None:
        log.warning(
            "%s: the resource version is now %s but was %s, so the cluster was restored from a backup; listing again",
            self.resource.plural, revision, self._revision,
        )  # fmt: skip
        self._restore_detected = True

    def _record_response(self) -> None:
        self.last_response = self._clock.seconds()
        self.since = min(self.since, self.last_response)
        if self.failure:
            self.failure = ""
            self._notify_state()

    def _notify_state(self) -> None:
        for callback in tuple(self._state_callbacks):
            callback()

    def _not_served(self) -> None:
        """Remove all objects of a resource that is not served; it may appear later (a feature gate, a CRD)."""
        self._continues = False
        self._unserved = min(self._unserved, self._clock.seconds())
        if self._items and self._clock.seconds() - self._unserved < _GONE_SECONDS:
            self.since = inf
            return
        self._record_response()
        self.unreadable = ""
        if self.not_read != "not-served":
            log.info("the cluster does not serve %s: none are considered", self._full_name())
        self.not_read = "not-served"
        for item in tuple(self._items.values()):
            self._put(item, None)
        self.synced.set()

    def _full_name(self) -> str:
        """The resource in messages: ``podgroups.scheduling.k8s.io``."""
        return f"{self.resource.plural}.{self.resource.group}" if self.resource.group else self.resource.plural

    async def _watch(self) -> None:
        async for event in self._client.watch(
            self.resource, self._namespace, revision=self._revision, labels=self._labels, fields=self._fields
        ):
            self.last_response = self._clock.seconds()
            metadata = event.object["metadata"]
            revision = self._revision = metadata["resourceVersion"]
            if event.type == "BOOKMARK":
                self._advance(revision)
                continue
            known = self._items.get((metadata.get("namespace", ""), metadata["name"]))
            if event.type == "DELETED":
                # An older deletion means that the object was re-created, and the new one was recorded.
                if known is not None and known.revision <= revision_number(self._revision):
                    self._put(known, None)
            elif known is None or known.revision < revision_number(self._revision):
                self._put(known, self._item(event.object))
            if self._awaited:
                self._advance(revision)

    def _item(self, tree: Tree) -> CachedItem[T]:
        if "kind" not in tree:  # Kubernetes leaves it out of the items of lists
            tree = {"kind": self.resource.kind, "apiVersion": self.resource.api_version, **tree}
        return CachedItem(tree, self._type)

    def _put(self, old: CachedItem[T] | None, new: CachedItem[T] | None) -> None:
        if old is not None and new is not None and old.uid != new.uid:
            self._put(old, None)
            old = None
        if new is not None:
            self._items[new.key] = new
        elif old is not None:
            del self._items[old.key]
        for index in self._indexes.values():
            index.change(old, new)
        for callback in tuple(self._callbacks):
            self._notify(callback, old, new)

    def _notify(self, callback: Changed[T], old: CachedItem[T] | None, new: CachedItem[T] | None) -> None:
        try:
            callback(old, new)
        except Exception:
            # A failing callback must not keep changes from the others.
            log.exception("%s: a callback failed on %r", self.resource.plural, new or old)

    def typed(self, type: type[V]) -> Cache[V]:
        """The same cache with typed values. Raises TypeError if it is read as another type already."""
        if self._type is None:
            self._type = cast("Any", type)
            for item in self._items.values():
                item._type, item._value = self._type, None
        elif self._type is not cast("Any", type):
            raise TypeError(f"{self.resource.plural} are read as {self._type.__name__} and as {type.__name__}")
        return cast("Cache[V]", self)
