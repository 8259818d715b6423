"""The states in which each object may be, according to the answers that clients got.

A write without an answer may or may not have happened, so an object is then in either of two states. Everything else is
certain, and must stay so through every restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

#: Bucket and name.
Key = tuple[str, str]


class ObjectState(NamedTuple):
    """The known state of an object. ``least`` and ``most``: the limits of its counter, if it has one."""

    may_exist: bool
    must_exist: bool
    uid: str = ""
    least: int = 0
    most: int = 0


class Ledger:
    """The known states of all objects that clients wrote."""

    def __init__(self) -> None:
        self.known: dict[Key, ObjectState] = {}
        self.acknowledged = 0
        self.unanswered = 0
        #: The newest revision in an answer.
        self.revision = 0

    def creating(self, key: Key) -> None:
        """A create is sent."""
        self.known[key] = ObjectState(may_exist=True, must_exist=False)

    def created(self, key: Key, uid: str) -> None:
        """The create was acknowledged."""
        self.known[key] = ObjectState(may_exist=True, must_exist=True, uid=uid)
        self.acknowledged += 1

    def counting(self, key: Key, value: int) -> None:
        """A new value is sent."""
        self.known[key] = self.known[key]._replace(most=value)

    def counted(self, key: Key, value: int) -> None:
        """The value was acknowledged."""
        self.known[key] = self.known[key]._replace(least=value)
        self.acknowledged += 1

    def deleting(self, key: Key) -> None:
        """A delete is sent."""
        self.known[key] = self.known[key]._replace(must_exist=False)

    def deleted(self, key: Key) -> None:
        """The delete was acknowledged."""
        self.known[key] = self.known[key]._replace(may_exist=False)
        self.acknowledged += 1

    def answered(self, revision: str | None) -> None:
        """A write was acknowledged with the revision of its object."""
        self.revision = max(self.revision, int(revision or 0))

    def held(self) -> None:
        """A delete was acknowledged of an object whose finalizer keeps it."""
        self.acknowledged += 1

    def rejected(self, key: Key) -> None:
        """A create was rejected: the object does not exist."""
        self.known[key] = ObjectState(may_exist=False, must_exist=False)

    def compare(self, found: dict[Key, tuple[str, int]]) -> Iterator[str]:
        """Compare a lab's objects (by key: uid and counter) with the known states; return the errors."""
        for key, known in self.known.items():
            existing = found.get(key)
            if existing is None:
                if known.must_exist:
                    yield f"{_key_text(key)}: acknowledged, and lost"
                continue
            uid, value = existing
            if not known.may_exist:
                yield f"{_key_text(key)}: its deletion was acknowledged, but it exists"
            elif known.uid and uid != known.uid:
                yield f"{_key_text(key)}: created as {known.uid}, now another object"
            elif not known.least <= value <= known.most:
                yield f"{_key_text(key)}: counts {value}, acknowledged {known.least}, sent {known.most}"

    def settle(self, found: dict[Key, tuple[str, int]]) -> None:
        """After a restart, adopt the objects found where the state was uncertain."""
        for key in list(self.known):
            existing = found.get(key)
            if existing is not None:
                uid, value = existing
                self.known[key] = ObjectState(may_exist=True, must_exist=True, uid=uid, least=value, most=value)
            else:
                del self.known[key]


def _key_text(key: Key) -> str:
    return f"{key[0]} {key[1]}"
