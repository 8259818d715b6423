"""``ObjectMemory``: the objects of a cluster as values and trees, changed one by one, in the order of a snapshot.

Used by one thread at a time. Decoding, which takes most of the time, is done here and not in the event loop.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from msgspec.structs import replace

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.typed_objects import value_of
from allotment.model.core import Pod
from allotment.model.meta import Object, ObjectKey
from allotment.model.trees import Tree
from allotment.watched.kinds import KINDS
from allotment.watched.view import Identity

V = TypeVar("V", bound=Object)

_SortKey = tuple[int, str, str, str]


class ObjectChange(NamedTuple):
    """A change of a value; None stands for an absent object."""

    old: Object | None
    new: Object | None


class _Ordered(Generic[V]):
    """The values of one kind, pods in scheduling order, others by namespace and name."""

    def __init__(self) -> None:
        self._by_key: dict[ObjectKey, tuple[_SortKey, V]] = {}
        self._sorted: list[_SortKey] = []
        self._values: dict[_SortKey, V] = {}
        self._all: tuple[V, ...] | None = ()

    def get(self, key: ObjectKey) -> V | None:
        found = self._by_key.get(key)
        return found[1] if found is not None else None

    def put(self, key: ObjectKey, value: V) -> None:
        place = _place(value)
        known = self._by_key.get(key)
        if known is None or known[0] != place:
            self.remove(key)
            insort(self._sorted, place)
        self._by_key[key] = place, value
        self._values[place] = value
        self._all = None

    def remove(self, key: ObjectKey) -> None:
        known = self._by_key.pop(key, None)
        if known is not None:
            del self._sorted[bisect_left(self._sorted, known[0])]
            del self._values[known[0]]
            self._all = None

    def all(self) -> tuple[V, ...]:
        if self._all is None:
            self._all = tuple(map(self._values.__getitem__, self._sorted))
        return self._all


class ObjectTrees(Mapping[Identity, Tree]):
    """The trees of all objects at one moment. Kinds without changes share their part with earlier ones."""

    def __init__(self, by_kind: Mapping[str, Mapping[ObjectKey, Tree]]) -> None:
        self._by_kind = by_kind

    def __getitem__(self, identity: Identity) -> Tree:
        """Return the tree of an object. Raises KeyError."""
        return self._by_kind[identity[0]][identity[1]]

    def __iter__(self) -> Iterator[Identity]:
        """Iterate over kinds and keys."""
        return ((kind, key) for kind, trees in self._by_kind.items() for key in trees)

    def __len__(self) -> int:
        """Return the number of objects."""
        return sum(map(len, self._by_kind.values()))


class ObjectMemory:
    """Values and trees of all kinds, and the events."""

    def __init__(self) -> None:
        self._kinds: Final[dict[type[Object], _Ordered[Any]]] = {
            kind.type: _Ordered() for kind in KINDS if kind.type is not None
        }
        self._trees: dict[str, dict[ObjectKey, Tree]] = {kind.__name__: {} for kind in self._kinds}
        self._shared: set[str] = set()
        """The kinds whose trees belong to a result of `trees`, and are copied before a change."""
        self._events: dict[ObjectKey, Tree] = {}

    def put(self, kind: type[Object], key: ObjectKey, item: CachedItem[Any] | None) -> ObjectChange | None:
        """Add, replace or (None) remove an object; return how its value changed, None if it did not.

        An object that cannot be decoded counts as absent.
        """
        known, name = self._kinds[kind], kind.__name__
        old, new = known.get(key), value_of(item, kind) if item is not None else None
        if name in self._shared:
            self._shared.remove(name)
            self._trees[name] = dict(self._trees[name])
        if item is None or new is None:
            self._trees[name].pop(key, None)
            known.remove(key)
            return ObjectChange(old, None) if old is not None else None
        self._trees[name][key] = item.tree
        known.put(key, new)
        return None if old is not None and _is_same(old, new) else ObjectChange(old, new)

    def put_event(self, key: ObjectKey, item: CachedItem[Any] | None) -> bool:
        """Add or replace an event; return whether there is one. One that expires (None) is no change of the cluster."""
        if item is None:
            self._events.pop(key, None)
            return False
        self._events[key] = item.tree
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

    def trees(self) -> ObjectTrees:
        """The trees of all objects as they are now."""
        self._shared.update(self._trees)
        return ObjectTrees(dict(self._trees))

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
