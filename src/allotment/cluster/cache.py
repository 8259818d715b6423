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
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from math import inf
from random import Random
from typing import Any, Final, Generic, TypeVar, cast

from allotment.cluster.backoff import Backoff
from allotment.cluster.client import Client, Resource
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.model.trees import Tree, read_value

T = TypeVar("T")
V = TypeVar("V")

log = logging.getLogger(__name__)

#: A watch that lived this long was no failure, however it ended.
_HEALTHY_SECONDS = 5.0


_UNREAD: Final[Tree] = {}


class Item(Generic[T]):
    """One object as the cache has it: the tree, and (made when first asked for) the typed value."""

    __slots__ = ("_controller", "_type", "_value", "key", "name", "namespace", "revision", "tree", "uid")

    def __init__(self, tree: Tree, type: type[T] | None = None) -> None:
        metadata = tree["metadata"]
        self.tree = tree
        self.namespace: str = metadata.get("namespace", "")
        self.name: str = metadata["name"]
        #: Namespace and name.
        self.key = (self.namespace, self.name)
        self.uid: str = metadata.get("uid", "")
        self.revision = revision_of(tree)
        self._type = type
        self._value: T | None = None
        self._controller: Tree | None = _UNREAD

    def __repr__(self) -> str:
        return f"<Item {self.namespace}/{self.name} at {self.revision}>"

    @property
    def value(self) -> T:
        """The typed value; decoded once. A cache without a type gives the tree."""
        if self._value is None:
            self._value = cast("T", self.tree) if self._type is None else read_value(self.tree, self._type)
        return self._value

    @property
    def metadata(self) -> Tree:
        """``metadata`` of the tree."""
        return cast("Tree", self.tree["metadata"])

    @property
    def spec(self) -> Tree:
        """``spec`` of the tree, empty where it has none."""
        return self.tree.get("spec") or {}

    @property
    def status(self) -> Tree:
        """``status`` of the tree, empty where it has none."""
        return self.tree.get("status") or {}

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the tree."""
        return self.tree["metadata"].get("labels") or {}

    @property
    def deleting(self) -> bool:
        """Whether somebody asked for its deletion."""
        return "deletionTimestamp" in self.tree["metadata"]

    @property
    def controller(self) -> Tree | None:
        """The owner reference that says ``controller: true``."""
        if self._controller is _UNREAD:
            self._controller = controller_of(self.tree)
        return self._controller


Changed = Callable[["Item[T] | None", "Item[T] | None"], None]
KeysOf = Callable[["Item[T]"], Iterable[Hashable]]


class Index(Generic[T]):
    """Items by what a function says of each. Most changes move nothing: then one question is all they cost."""

    __slots__ = ("_by_key", "_items", "_keys", "_keys_of")

    def __init__(self, keys_of: KeysOf[T], items: Mapping[tuple[str, str], Item[T]]) -> None:
        self._keys_of = keys_of
        self._items = items
        self._keys: dict[tuple[str, str], tuple[Hashable, ...]] = {}
        self._by_key: dict[Hashable, dict[tuple[str, str], None]] = {}

    def __getitem__(self, key: Hashable) -> Collection[Item[T]]:
        """Items under a key, in no promised order; none is no error."""
        found = self._by_key.get(key)
        return [self._items[name] for name in found] if found else ()

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def __iter__(self) -> Iterator[Any]:
        """The keys under which there is something."""
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def change(self, old: Item[T] | None, new: Item[T] | None) -> None:
        """Follow a change; the cache calls this."""
        item = new or old
        assert item is not None
        before = self._keys.get(item.key, ())
        after: tuple[Hashable, ...] = tuple(self._keys_of(new)) if new is not None else ()
        if before == after:
            return
        for key in before:
            names = self._by_key.get(key) if key not in after else None
            if names is not None:  # a key may have been named twice
                names.pop(item.key, None)
                if not names:
                    del self._by_key[key]
        for key in after:
            self._by_key.setdefault(key, {})[item.key] = None
        if after:
            self._keys[item.key] = after
        else:
            del self._keys[item.key]


class Cache(Generic[T]):
    """See the module. ``run`` it in a task of its own, or take it from :class:`Caches`, which does."""

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
        if known is None and item.revision <= _number(self._revision):
            return  # the watch is past it already: it is gone again
        if known is None or known.revision < item.revision:
            self._put(known, item)

    def noted_gone(self, tree: Tree) -> None:
        """Take in that what ``tree`` shows is gone: a delete that left nothing, or a 404."""
        metadata = tree["metadata"]
        known = self._items.get((metadata.get("namespace", ""), metadata["name"]))
        if known is not None and known.uid == metadata.get("uid", ""):
            self._put(known, None)

    async def reached(self, revision: str) -> None:
        """Wait until list and watch have told everything up to a revision of this resource.

        Whoever has written something and must know what others wrote before it waits for this.
        """
        wanted = _number(revision)
        if _number(self._revision) < wanted:
            arrived = asyncio.get_running_loop().create_future()
            heapq.heappush(self._awaited, (wanted, next(self._tickets), arrived))
            await arrived

    def _moved(self, revision: str) -> None:
        """List or watch have come to a revision, and all of it has been told."""
        self._revision = revision
        while self._awaited and self._awaited[0][0] <= _number(revision):
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
        listed = {(item := self._item(tree)).key: item for tree in listing.items}
        revision = _number(listing.revision)
        restored = revision < _number(self._revision)
        self._revision, self._continues = listing.revision, True
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
        if _number(listing.revision) >= _number(self._revision):
            return True
        log.warning(
            "%s: the cluster is at revision %s, and was at %s before: it was restored from a backup, and is read anew",
            self.resource.plural, listing.revision, self._revision,
        )  # fmt: skip
        return False

    def _hear(self) -> None:
        self.heard = self._clock.seconds()
        self.since = min(self.since, self.heard)

    def _not_served(self) -> None:
        """The cluster has no such resource, so there is nothing of it; it may come (a gate, a definition of a kind)."""
        self._hear()
        log.debug("%s are not served", self.resource.plural)
        self._continues = False
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
                if known is not None and known.revision <= _number(self._revision):
                    self._put(known, None)
            elif known is None or known.revision < _number(self._revision):
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


class Caches:
    """One cache per resource for all programs of a process: listed, watched and decoded once."""

    def __init__(self, client: Client, *, clock: Clock, random: Random) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._caches: dict[Resource, Cache[Any]] = {}
        self._start: Callable[[Cache[Any]], None] | None = None

    def of(self, resource: Resource, type: type[T] | None = None) -> Cache[T]:
        """The cache of a resource; it starts with the first who asks."""
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
        """The caches that somebody asked for."""
        return tuple(self._caches.values())

    async def run(self) -> None:
        """Keep all of them current, for ever."""
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
    """Wait until each has been listed once."""
    for cache in caches:
        await cache.synced.wait()


def revision_of(tree: Tree) -> int:
    """``metadata.resourceVersion`` as a number, 0 where there is none."""
    return _number(tree["metadata"].get("resourceVersion", ""))


def controller_of(tree: Tree) -> Tree | None:
    """The owner reference that says ``controller: true``."""
    for owner in tree["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return cast("Tree", owner)
    return None


def by_controller(item: Item[Any]) -> tuple[str, ...]:
    """For indexes: the uid of the controlling owner."""
    owner = item.controller
    return (owner["uid"],) if owner else ()


def by_namespace(item: Item[Any]) -> tuple[str, ...]:
    """For indexes: the namespace."""
    return (item.namespace,)


def by_uid(item: Item[Any]) -> tuple[str, ...]:
    """For indexes: the object's own uid."""
    return (item.uid,)


def by_node(item: Item[Any]) -> tuple[str, ...]:
    """For indexes of pods: the node that they are bound to."""
    node = item.spec.get("nodeName")
    return (node,) if node else ()


def _number(revision: str) -> int:
    return int(revision) if revision.isdecimal() else 0
