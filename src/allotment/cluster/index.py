"""Secondary indexes of a cache: pods by node, claims by owner."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from allotment.cluster.cached_item import CachedItem

T = TypeVar("T")

KeysOf = Callable[["CachedItem[T]"], Iterable[Hashable]]


class Index(Generic[T]):
    """Items by the keys that a function returns. A change that keeps its keys costs one call of the function."""

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
