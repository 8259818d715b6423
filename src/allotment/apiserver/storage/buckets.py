"""The current objects of one resource, indexed by name and sorted for lists.

Names are kept sorted by insertion (binary search and one memory move), so lists need no sorting, and a list of one
namespace reads only that namespace.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from allotment.apiserver.storage.store import Entry

Key = tuple[str, str]


class Bucket:
    """The objects of one resource, by namespace and name."""

    __slots__ = ("_entries", "_all", "_keys")

    def __init__(self, entries: dict[Key, Entry] | None = None) -> None:
        self._entries: dict[Key, Entry] = {} if entries is None else entries
        self._keys: list[Key] = sorted(self._entries)
        self._all: tuple[Entry, ...] | None = None

    def get(self, key: Key) -> Entry | None:
        """The object with a key, or None."""
        return self._entries.get(key)

    def put(self, key: Key, entry: Entry) -> Entry | None:
        """Create or replace an object; returns the previous one."""
        entries = self._entries
        previous = entries.get(key)
        entries[key] = entry
        self._all = None
        if previous is None:
            keys = self._keys
            if keys and key < keys[-1]:
                insort(keys, key)
            else:
                keys.append(key)
        return previous

    def remove(self, key: Key) -> Entry:
        """Remove and return an object; KeyError if it does not exist."""
        previous = self._entries.pop(key)
        del self._keys[bisect_left(self._keys, key)]
        self._all = None
        return previous

    def list(self, namespace: str | None = None) -> Sequence[Entry]:
        """All objects or those of one namespace, sorted by key."""
        entries, keys = self._entries, self._keys
        if namespace is None:
            if self._all is None:
                self._all = tuple([entries[key] for key in keys])
            return self._all
        first, last = bisect_left(keys, (namespace, "")), bisect_left(keys, (namespace + "\0", ""))
        return tuple([entries[key] for key in keys[first:last]])

    def with_changes(self, differences: dict[Key, Entry | None]) -> tuple[Entry, ...]:
        """All objects, sorted, with the states of some replaced (None: absent)."""
        entries = self._entries | differences
        keys = self._keys + [key for key in differences if key not in self._entries]
        keys.sort()  # two or three sorted runs: no more than a merge
        return tuple([entry for key in keys if (entry := entries[key]) is not None])


def in_namespace(entries: Sequence[Entry], namespace: str) -> Sequence[Entry]:
    """The entries of one namespace in a sorted sequence."""
    first = bisect_left(entries, namespace, key=_namespace)
    return entries[first : bisect_left(entries, namespace + "\0", first, key=_namespace)]


def _namespace(entry: Entry) -> str:
    return entry.namespace
