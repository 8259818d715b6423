"""What a program knows of a resource: every object, kept current by list and watch, shared by all who ask.

A cache lists once and then only watches. A watch that ends goes on where it stopped; one that came too late (410)
lists again and tells the difference. So does one whose cluster has gone back to earlier revisions: its store was
restored from a backup, and a watch from a revision that is still to come would be told nothing. Callbacks run at once
and in order: whoever is called sees the cache as the change left it, and must only note what to do.

Revisions are compared as numbers, which Kubernetes promises since 1.35. That is what makes :meth:`Cache.noted` safe: a
program puts the answer to its own write in at once and never acts on what it has itself replaced, and an older watch
event cannot undo it.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections.abc import Callable, Collection, Iterator
from math import inf
from random import Random
from typing import Any, Generic, TypeVar, cast

from allotment.cluster.backoff import Backoff
from allotment.cluster.cached_item import Item, numbered
from allotment.cluster.client import Client, Resource
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, UnknownVersions, Unreachable
from allotment.cluster.index import Index, KeysOf
from allotment.model.trees import Tree

T = TypeVar("T")
V = TypeVar("V")

log = logging.getLogger(__name__)

#: A watch that lived this long was no failure, however it ended.
_HEALTHY_SECONDS = 5.0
#: What was served is believed to be gone after so long: of several servers one may not know it, as during an upgrade.
_GONE_SECONDS = 60.0

Changed = Callable[["Item[T] | None", "Item[T] | None"], None]


class Cache(Generic[T]):
    """See the module. ``run`` it in a task of its own, or take it from ``Caches``, which does."""

    def __init__(
        self, client: Client, resource: Resource, type: type[T] | None = None, *, clock: Clock, random: Random,
        namespace: str = "", labels: str = "", fields: str = "",
    ) -> None:  # fmt: skip
        self.resource = resource
        self.synced = asyncio.Event()
        self._told: float | None = None
        """When it was last said that no answer came."""
        self.heard = -inf
        """When the server last said anything of it, by the clock's ``seconds``: a quiet watch has bookmarks."""
        self.since = inf
        """Since when it has followed without a break, by the clock's ``seconds``; infinite while it does not."""
        self.unreadable = ""
        """Why the objects that there may be cannot be read: in no version that is known. What was read before stays."""
        self.restored = 0
        """How often it was read anew, because the cluster was restored from a backup."""
        self._client = client
        self._type = type
        self._clock = clock
        self._backoff = Backoff(random)
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._items: dict[tuple[str, str], Item[T]] = {}
        self._indexes: dict[str, Index[T]] = {}
        self._callbacks: list[Changed[T]] = []
        # Up to which revision the list and the watch have told everything; "" before the first list.
        self._revision = ""
        self._continues = False
        """Whether a watch from there would tell the rest."""
        self._went_back = False
        """Whether the cluster was seen to be restored, and is not read yet; it may come past where it was meanwhile."""
        self._unserved = inf
        """Since when the cluster says that it has no such resource."""
        self._awaited: list[tuple[int, int, asyncio.Future[None]]] = []
        self._tickets = itertools.count()

    # --- reading ------------------------------------------------------------------------------------------------

    def item(self, namespace: str, name: str) -> Item[T] | None:
        """One object with its tree; the namespace of what has none is empty."""
        return self._items.get((namespace, name))

    def get(self, namespace: str, name: str) -> T | None:
        """One object's value."""
        item = self._items.get((namespace, name))
        return item.value if item else None

    def tree(self, namespace: str, name: str) -> Tree | None:
        """One object's tree."""
        item = self._items.get((namespace, name))
        return item.tree if item else None

    def items(self) -> Collection[Item[T]]:
        """All objects with their trees."""
        return self._items.values()

    def values(self) -> Iterator[T]:
        """All objects' values."""
        return (item.value for item in self._items.values())

    def __len__(self) -> int:
        return len(self._items)

    def index(self, name: str, keys_of: KeysOf[T]) -> Index[T]:
        """The index of that name, made when first asked for."""
        index = self._indexes.get(name)
        if index is None:
            index = self._indexes[name] = Index(keys_of, self._items)
            for item in self._items.values():
                index.change(None, item)
        return index

    def on_change(self, callback: Changed[T]) -> Callable[[], None]:
        """Be told of every change (``old``, ``new``; ``None`` is absent), first of all that is there; returns the end.

        An object that went and came again under its name is told as two changes.
        """
        self._callbacks.append(callback)
        for item in tuple(self._items.values()):
            self._tell(callback, None, item)
        return lambda: self._callbacks.remove(callback)

    # --- what programs add themselves -----------------------------------------------------------------------------

    def noted(self, tree: Tree) -> None:
        """Take in the answer to a write of one's own, ahead of the watch."""
        item = Item(tree, self._type)
        known = self._items.get(item.key)
        if known is None and item.revision <= numbered(self._revision):
            return  # the watch is past it already: it is gone again
        if known is None or known.revision < item.revision:
            self._put(known, item)

    def noted_gone(self, tree: Tree) -> None:
        """Take in that what ``tree`` shows is gone: a delete that left nothing, or a 404."""
        metadata = tree["metadata"]
        known = self._items.get((metadata.get("namespace", ""), metadata["name"]))
        if known is not None and known.uid == metadata.get("uid", ""):
            self._put(known, None)

    @property
    def revision(self) -> int:
        """Up to which revision list and watch have told everything. What is written from now on gets a later one, or
        the cluster was restored from a backup and this cache does not know yet."""
        return numbered(self._revision)

    async def reached(self, revision: str) -> None:
        """Wait until list and watch have told everything up to a revision of this resource.

        Whoever has written something and must know what others wrote before it waits for this.
        """
        wanted = numbered(revision)
        if numbered(self._revision) < wanted:
            arrived = asyncio.get_running_loop().create_future()
            heapq.heappush(self._awaited, (wanted, next(self._tickets), arrived))
            await arrived

    def _moved(self, revision: str) -> None:
        """List or watch have come to a revision, and all of it has been told."""
        self._revision = revision
        while self._awaited and self._awaited[0][0] <= numbered(revision):
            arrived = heapq.heappop(self._awaited)[2]
            if not arrived.done():
                arrived.set_result(None)

    # --- following ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the cluster for ever."""
        while True:
            began = self._clock.seconds()
            try:
                if self._continues:
                    self._continues = await self._as_before()
                if not self._continues:
                    await self._list()
                await self._watch()
            except UnknownVersions as error:
                self._continues, self.since = False, inf
                self.unreadable = str(error)
                self.synced.set()
            except StatusError as error:
                if error.code == 404:
                    self._not_served()
                elif error.code == 410 or error.reason in ("Expired", "Gone"):
                    self._continues, self.since = False, inf
                else:
                    self.since = inf
                    log.warning("%s: %s", self.resource.plural, error)
            except Unreachable as error:
                self.since = inf
                # That a server is gone is news once: it may be for long.
                news = self._told is None or self.heard > self._told
                log.log(logging.INFO if news else logging.DEBUG, "%s: %s", self.resource.plural, error)
                self._told = self._clock.seconds()
            if self._clock.seconds() - began >= _HEALTHY_SECONDS:
                self._backoff.reset()
            await self._clock.sleep(self._backoff.next())

    async def _list(self) -> None:
        listing = await self._client.list(
            self.resource, self._namespace, labels=self._labels, fields=self._fields, limit=500
        )
        self._hear()
        self.unreadable = ""
        listed = {(item := self._item(tree)).key: item for tree in listing.items}
        revision = numbered(listing.revision)
        restored, self._went_back = self._went_back or revision < numbered(self._revision), False
        self.restored += restored
        self._revision, self._continues, self._unserved = listing.revision, True, inf
        for key, known in tuple(self._items.items()):
            # What was noted after the list was made is not in it, and is there all the same.
            if key not in listed and (restored or known.revision <= revision):
                self._put(known, None)
        for key, item in listed.items():
            old = self._items.get(key)
            if old is None or restored or old.revision < item.revision:
                self._put(old, item)
        if restored:  # what is waited for will never come
            self._awaited = [(0, ticket, arrived) for _, ticket, arrived in self._awaited]
        self._moved(listing.revision)
        self.synced.set()

    async def _as_before(self) -> bool:
        """Whether the cluster is still as far as this cache has come; a list of nothing tells."""
        namespace = self._namespace or ("default" if self.resource.namespaced else "")
        fields = self._fields or "metadata.name=none"  # a role may allow lists of its own object only
        listing = await self._client.list(self.resource, namespace, labels=self._labels, fields=fields)
        self._hear()
        if numbered(listing.revision) >= numbered(self._revision):
            return True
        log.warning(
            "%s: the cluster is at revision %s, but was at %s before: it was restored from a backup; listing again",
            self.resource.plural, listing.revision, self._revision,
        )  # fmt: skip
        self._went_back = True
        return False

    def _hear(self) -> None:
        self.heard = self._clock.seconds()
        self.since = min(self.since, self.heard)

    def _not_served(self) -> None:
        """The cluster has no such resource, so there is nothing of it; it may come (a gate, a definition of a kind)."""
        self._continues = False
        self._unserved = min(self._unserved, self._clock.seconds())
        if self._items and self._clock.seconds() - self._unserved < _GONE_SECONDS:
            self.since = inf
            return
        self._hear()
        self.unreadable = ""
        log.debug("%s are not served", self.resource.plural)
        for item in tuple(self._items.values()):
            self._put(item, None)
        self.synced.set()

    async def _watch(self) -> None:
        async for event in self._client.watch(
            self.resource, self._namespace, revision=self._revision, labels=self._labels, fields=self._fields
        ):
            self.heard = self._clock.seconds()
            metadata = event.object["metadata"]
            revision = self._revision = metadata["resourceVersion"]
            if event.type == "BOOKMARK":
                self._moved(revision)
                continue
            known = self._items.get((metadata.get("namespace", ""), metadata["name"]))
            if event.type == "DELETED":
                # A deletion that is older than what is known: it went, came again, and the new one was noted.
                if known is not None and known.revision <= numbered(self._revision):
                    self._put(known, None)
            elif known is None or known.revision < numbered(self._revision):
                self._put(known, self._item(event.object))
            if self._awaited:
                self._moved(revision)

    def _item(self, tree: Tree) -> Item[T]:
        if "kind" not in tree:  # Kubernetes leaves it out of the items of lists
            tree = {"kind": self.resource.kind, "apiVersion": self.resource.api_version, **tree}
        return Item(tree, self._type)

    def _put(self, old: Item[T] | None, new: Item[T] | None) -> None:
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
            self._tell(callback, old, new)

    def _tell(self, callback: Changed[T], old: Item[T] | None, new: Item[T] | None) -> None:
        try:
            callback(old, new)
        except Exception:
            # One program's mistake must not blind the others.
            log.exception("%s: a callback failed on %r", self.resource.plural, new or old)

    def typed(self, type: type[V]) -> Cache[V]:
        """The same cache for readers of a type. Raises TypeError when others read it as another type."""
        if self._type is None:
            self._type = cast("Any", type)
            for item in self._items.values():
                item._type, item._value = self._type, None
        elif self._type is not cast("Any", type):
            raise TypeError(f"{self.resource.plural} are read as {self._type.__name__} and as {type.__name__}")
        return cast("Cache[V]", self)
