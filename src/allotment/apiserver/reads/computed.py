"""Reads of kinds whose objects are computed from others instead of being stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from allotment.apiserver.kinds.kind import ServedKind
from allotment.apiserver.storage.store import Entry, Store


class EntryReader(Protocol):
    """The part of a store that reads use."""

    @property
    def revision(self) -> int:
        """The newest revision."""
        ...

    def get(self, resource: str, namespace: str, name: str) -> Entry | None:
        """The latest state of an object; None if it does not exist."""
        ...

    def list(self, resource: str, namespace: str | None = None, *, at: int | None = None) -> Sequence[Entry]:
        """The objects of a bucket or of one namespace."""
        ...


def readable(store: Store, kind: ServedKind, now: Callable[[], str]) -> EntryReader:
    """The reader of a kind: the store, unless its objects are computed. ``now``: RFC 3339."""
    return store if kind.computed is None else _Computed(store, kind, now)


class _Computed:
    def __init__(self, store: Store, kind: ServedKind, now: Callable[[], str]) -> None:
        self._store = store
        self._kind = kind
        self._now = now

    @property
    def revision(self) -> int:
        return self._store.revision

    def get(self, resource: str, namespace: str, name: str) -> Entry | None:
        found = self.list(resource, namespace or None)
        return next((entry for entry in found if entry.name == name), None)

    def list(self, resource: str, namespace: str | None = None, *, at: int | None = None) -> Sequence[Entry]:
        # At any revision: what is computed has no history.
        compute = self._kind.computed
        return [] if compute is None else compute(self._store, namespace, self._now())
