"""The Store interface, and the entries and changes that it returns.

All resources share one sequence of revisions. Reads and writes are synchronous and see each other immediately;
durability follows later: await :meth:`Store.durable` before anything leaves the process (a response, a watch event).
Subscribers are notified of durable changes only, in order of revision. In-process subscribers may be notified
``early``: they can react only with later writes, and the disk always contains a prefix of all writes, so nothing on
disk depends on a lost write.

A ``resource`` is a bucket name, ``plural`` or ``plural.group``, shared by all versions of a kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol

import msgspec

from allotment.model.trees import Tree


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A stored object. ``tree`` is shared and must not be with_changes; ``json`` is its compact UTF-8 JSON."""

    namespace: str
    name: str
    revision: int
    tree: Tree
    json: bytes


class Change(msgspec.Struct, frozen=True, gc=False):
    """A write. For DELETED, ``entry`` is the last state with the revision of the deletion."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    resource: str
    entry: Entry
    previous: Entry | None

    @property
    def revision(self) -> int:
        """The revision of the write."""
        return self.entry.revision


class Compacted(Exception):
    """The requested revision is older than ``oldest``, the first one in the history."""

    def __init__(self, requested: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {requested} ({oldest})")
        self.requested = requested
        self.oldest = oldest


class Store(Protocol):
    """A versioned object store. Not thread-safe: it belongs to one event loop."""

    @property
    def revision(self) -> int:
        """The newest revision."""
        ...

    @property
    def oldest(self) -> int:
        """The compacted revision: reads and watches can start at it or later."""
        ...

    def get(self, resource: str, namespace: str, name: str) -> Entry | None:
        """The current object, or None."""
        ...

    def list(self, resource: str, namespace: str | None = None, *, at: int | None = None) -> Sequence[Entry]:
        """The objects by namespace and name, now or ``at`` a revision. Raises Compacted."""
        ...

    def put(self, resource: str, namespace: str, name: str, tree: Tree) -> Entry:
        """Create or replace an object. Takes ownership of ``tree`` and sets its ``metadata.resourceVersion``."""
        ...

    def delete(self, resource: str, namespace: str, name: str, tree: Tree | None = None) -> Entry:
        """Delete an object; returns its last state (``tree``, if given) at the new revision. KeyError if absent."""
        ...

    def changes(self, resource: str, after: int, *, early: bool = False) -> Iterable[Change]:
        """The durable changes of a resource (``early``: all) after a revision, oldest first. Raises Compacted."""
        ...

    def subscribe(
        self, resource: str, callback: Callable[[Change], None], *, early: bool = False
    ) -> Callable[[], None]:
        """Call ``callback`` for each durable change (``early``: for each change); returns a function to unsubscribe.

        Early callbacks must only record the change.
        """
        ...

    async def durable(self, revision: int | None = None) -> None:
        """Wait until a revision (default: the newest) is on disk. Raises OSError if that is impossible."""
        ...

    def compact(self, revision: int) -> None:
        """Drop the history up to a revision."""
        ...

    async def close(self) -> None:
        """Make all changes durable and close the file."""
        ...
