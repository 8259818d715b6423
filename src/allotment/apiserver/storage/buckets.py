"""The newest state of one resource: objects by name, and their order for lists.

Names are kept sorted as objects come and go (a binary search and one memory move), so that a list never sorts and a
list of one namespace reads only that namespace.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from allotment.apiserver.storage.store import Entry

Key = tuple[str, str]


class Bucket:
    """The objects of one resource, by namespace and name."""

    __slots__ = ("_entries", "_everything", "_keys")

    def __init__(self, entries: dict[Key, Entry] | None = None) -> None:
        self._entries: dict[Key, Entry] = {} if entries is None else entries
        self._keys: list[Key] = sorted(self._entries)
        self._everything: tuple[Entry, ...] | None = None

    def get(self, key: Key) -> Entry | None:
        """The object of a name."""
        return self._entries.get(key)

    def put(self, key: Key, entry: Entry) -> Entry | None:
        """Create or replace; returns what was there."""
        entries = self._entries
        previous = entries.get(key)
        entries[key] = entry
        self._everything = None
        if previous is None:
            keys = self._keys
            if keys and key < keys[-1]:
                insort(keys, key)
            else:
                keys.append(key)
        return previous

    def remove(self, key: Key) -> Entry:
        """Take out the object of a name; KeyError if there is none."""
        previous = self._entries.pop(key)
        del self._keys[bisect_left(self._keys, key)]
        self._everything = None
        return previous

    def list(self, namespace: str | None = None) -> Sequence[Entry]:
        """All objects, or those of one namespace, in order."""
        entries, keys = self._entries, self._keys
        if namespace is None:
            if self._everything is None:
                self._everything = tuple([entries[key] for key in keys])
            return self._everything
        first, last = bisect_left(keys, (namespace, "")), bisect_left(keys, (namespace + "\0", ""))
        return tuple([entries[key] for key in keys[first:last]])

    def changed(self, differences: dict[Key, Entry | None]) -> tuple[Entry, ...]:
        """All objects in order, as they would be with other states (None: absent) of some."""
        entries = self._entries | differences
        keys = self._keys + [key for key in differences if key not in self._entries]
        keys.sort()  # two or three sorted runs: no more than a merge
        return tuple([entry for key in keys if (entry := entries[key]) is not None])


def within(entries: Sequence[Entry], namespace: str) -> Sequence[Entry]:
    """Those of one namespace, of objects in order."""
    first = bisect_left(entries, namespace, key=_namespace)
    return entries[first : bisect_left(entries, namespace + "\0", first, key=_namespace)]


def _namespace(entry: Entry) -> str:
    return entry.namespace
