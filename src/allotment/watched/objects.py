"""``ObjectMemory``: the objects of a cluster as values and trees, changed one by one, in the order of a snapshot.

Used by one thread at a time. Decoding, which takes most of the time, is done here and not in the event loop.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from msgspec.structs import replace

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.typed_objects import value_of
from allotment.model.core import Pod
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceSlice
from allotment.model.server_facts import ServerFacts
from allotment.model.trees import Tree
from allotment.tools.unread import names_group
from allotment.watched.keyed_objects import KeyedObjects, UnpackedTrees, unpacked
from allotment.watched.kinds import KINDS
from allotment.watched.slices import SliceDecoder

T = TypeVar("T")
V = TypeVar("V", bound=Object)

_SortKey = tuple[int, str, str, str]


class ObjectChange(NamedTuple):
    """A change of a value; None stands for an absent object."""

    old: Object | None
    new: Object | None


class _Shared(Generic[T]):
    """A dictionary that views have: it is copied before the first change after one got it."""

    def __init__(self) -> None:
        self.shared: dict[ObjectKey, T] = {}
        self._is_given = False

    def given(self) -> Mapping[ObjectKey, T]:
        """The dictionary for a view, which will not change."""
        self._is_given = True
        return self.shared

    def own(self) -> dict[ObjectKey, T]:
        """The dictionary to change."""
        if self._is_given:
            self.shared, self._is_given = dict(self.shared), False
        return self.shared


class _Ordered(Generic[V]):
    """The values of one kind, pods in scheduling order, others by namespace and name."""

    def __init__(self) -> None:
        self._by_key = _Shared[V]()
        self._sorted: list[_SortKey] = []
        self._values: dict[_SortKey, V] = {}
        self._all: tuple[V, ...] | None = ()

    def get(self, key: ObjectKey) -> V | None:
        return self._by_key.shared.get(key)

    def put(self, key: ObjectKey, value: V) -> None:
        place = _place(value)
        known = self.get(key)
        if known is None or _place(known) != place:
            self.remove(key)
            insort(self._sorted, place)
        self._by_key.own()[key] = value
        self._values[place] = value
        self._all = None

    def remove(self, key: ObjectKey) -> None:
        known = self._by_key.own().pop(key, None)
        if known is not None:
            place = _place(known)
            del self._sorted[bisect_left(self._sorted, place)]
            del self._values[place]
            self._all = None

    def by_key(self) -> Mapping[ObjectKey, V]:
        return self._by_key.given()

    def all(self) -> tuple[V, ...]:
        if self._all is None:
            self._all = tuple(map(self._values.__getitem__, self._sorted))
        return self._all


class ObjectMemory:
    """Values and trees of all kinds, and the events."""

    def __init__(self) -> None:
        self._kinds: Final[dict[type[Object], _Ordered[Any]]] = {
            kind.type: _Ordered() for kind in KINDS if kind.type is not None
        }
        self._trees = {kind: _Shared[bytes]() for kind in self._kinds}
        self._slices = SliceDecoder()
        self._events: dict[ObjectKey, Tree] = {}
        self._grouped: dict[tuple[type[Object], ObjectKey], Object] = {}
        """The objects that name a group of pods."""

    def put(self, kind: type[Object], key: ObjectKey, written: bytes | None) -> ObjectChange | None:
        """Add, replace or (None) remove an object; return how its value changed, None if it did not.

        An object that cannot be decoded counts as absent. ``written``: its packed tree.
        """
        known, trees = self._kinds[kind], self._trees[kind].own()
        old, new = known.get(key), self._value(written, kind) if written is not None else None
        self._grouped.pop((kind, key), None)
        if written is None or new is None:
            trees.pop(key, None)
            known.remove(key)
            return ObjectChange(old, None) if old is not None else None
        trees[key] = written
        known.put(key, new)
        if names_group(new):
            self._grouped[kind, key] = new
        return None if old is not None and _is_same(old, new) else ObjectChange(old, new)

    def _value(self, written: bytes, kind: type[Object]) -> Object | None:
        item: CachedItem[Any] = CachedItem(unpacked(written))
        return value_of(item, kind, decode=self._slices.value if kind is ResourceSlice else None)

    def put_event(self, key: ObjectKey, written: bytes | None) -> bool:
        """Add or replace an event; return whether there is one. One that expires (None) is no change of the cluster."""
        if written is None:
            self._events.pop(key, None)
            return False
        self._events[key] = unpacked(written)
        return True

    def of(self, kind: type[V]) -> tuple[V, ...]:
        """The values of a kind."""
        return cast("tuple[V, ...]", self._kinds[kind].all())

    def values(self) -> Iterable[Object]:
        """All values, pods last."""
        for kind, known in self._kinds.items():
            if kind is not Pod:
                yield from known.all()
        yield from self.of(Pod)

    def by_kind(self, facts: ServerFacts) -> dict[str, Mapping[ObjectKey, Object]]:
        """All objects as they are now, and the facts about their server."""
        found: dict[str, Mapping[ObjectKey, Object]] = {
            kind.__name__: each.by_key() for kind, each in self._kinds.items()
        }
        return {**found, ServerFacts.__name__: {facts.key: facts}}

    def of_optional_kinds(self) -> tuple[Object, ...]:
        """Objects that show which optional kinds would matter, as all objects do (see `unread_resources`)."""
        return (*self.of(ResourceSlice)[:1], *islice(self._grouped.values(), 1))

    def trees(self) -> UnpackedTrees:
        """The trees of all objects as they are now."""
        return UnpackedTrees(KeyedObjects({kind.__name__: trees.given() for kind, trees in self._trees.items()}))

    def events(self) -> tuple[Tree, ...]:
        """The events, in undefined order."""
        return tuple(self._events.values())


def _place(value: Object) -> _SortKey:
    metadata = value.metadata
    if isinstance(value, Pod):
        return (-(value.spec.priority or 0), metadata.creation_timestamp or "", metadata.namespace, metadata.name)
    return (0, "", metadata.namespace, metadata.name)


def _is_same(old: Object, new: Object) -> bool:
    """Whether only fields differ that no answer depends on, such as the heartbeat of a node."""
    return old == replace(new, metadata=replace(new.metadata, resource_version=old.metadata.resource_version))
