"""What the API needs of a store: small, so that another engine could stand behind it.

There is one sequence of revisions over all resources. Writes and reads are immediate and synchronous and see each
other at once; durability comes after: whoever lets anything out of the process (an answer, a watch event) first awaits
:meth:`Store.durable`. Subscribers are told of a change only when it is durable, in order of revisions; those who let
nothing out may be told ``early``. All they can do about it are later writes, and what is on disk is always a first part
of all writes: so nothing there ever follows from what was lost.

A ``resource`` is the name of a bucket, ``plural`` or ``plural.group``: all versions of a kind share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol

import msgspec

from allotment.model.trees import Tree


class Entry(msgspec.Struct, frozen=True, gc=False):
    """An object as stored. ``tree`` is shared and never changed; ``json`` is the same as compact UTF-8 JSON."""

    namespace: str
    name: str
    revision: int
    tree: Tree
    json: bytes


class Change(msgspec.Struct, frozen=True, gc=False):
    """One write. For DELETED, ``entry`` is the last state, under the revision of the deletion."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    resource: str
    entry: Entry
    previous: Entry | None

    @property
    def revision(self) -> int:
        """The revision that the write made."""
        return self.entry.revision


class Compacted(Exception):
    """The revision asked for is older than the history: ``asked`` and ``oldest`` (the first that is still known)."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")
        self.asked = asked
        self.oldest = oldest


class Store(Protocol):
    """See the module. Not thread-safe: one event loop owns it."""

    @property
    def revision(self) -> int:
        """The newest revision."""
        ...

    @property
    def oldest(self) -> int:
        """The revision up to which the history is forgotten: reads and watches from it on are possible."""
        ...

    def get(self, resource: str, namespace: str, name: str) -> Entry | None:
        """The newest state."""
        ...

    def list(self, resource: str, namespace: str | None = None, *, at: int | None = None) -> Sequence[Entry]:
        """All objects by namespace and name, now or as they were ``at`` a revision. Raises Compacted."""
        ...

    def put(self, resource: str, namespace: str, name: str, tree: Tree) -> Entry:
        """Create or replace; ``metadata.resourceVersion`` is set (in the tree given, which the store now owns)."""
        ...

    def delete(self, resource: str, namespace: str, name: str, tree: Tree | None = None) -> Entry:
        """Remove; returns the last state (``tree``, where given, is it) under the new revision. KeyError if absent."""
        ...

    def changes(self, resource: str, after: int, *, early: bool = False) -> Iterable[Change]:
        """The durable changes of a resource (early: all) after a revision, oldest first. Raises Compacted."""
        ...

    def subscribe(self, resource: str, tell: Callable[[Change], None], *, early: bool = False) -> Callable[[], None]:
        """Be told of each change of a resource once it is durable (early: as it is made); returns how to stop.

        Who is told early must only take note.
        """
        ...

    async def durable(self, revision: int | None = None) -> None:
        """Wait until a revision (the newest, if none) is on disk. Raises OSError when it can never be."""
        ...

    def compact(self, revision: int) -> None:
        """Forget the history up to a revision."""
        ...

    async def close(self) -> None:
        """Make everything durable and let go of files."""
        ...
