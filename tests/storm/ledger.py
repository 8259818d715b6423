"""What clients were told: for each object, the states in which it may be found.

A write whose answer did not come may have happened or not, so an object is then in either of two states. Everything
else is certain, and stays so through every restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

#: Bucket and name.
Key = tuple[str, str]


class Known(NamedTuple):
    """What is certain of an object. ``least`` and ``most``: between what its counter must be, if it has one."""

    may_exist: bool
    must_exist: bool
    uid: str = ""
    least: int = 0
    most: int = 0


class Ledger:
    """The certainties of all objects that clients wrote."""

    def __init__(self) -> None:
        self.known: dict[Key, Known] = {}
        self.acknowledged = 0
        self.unanswered = 0

    def creating(self, key: Key) -> None:
        """A create is sent."""
        self.known[key] = Known(may_exist=True, must_exist=False)

    def created(self, key: Key, uid: str) -> None:
        """It was acknowledged."""
        self.known[key] = Known(may_exist=True, must_exist=True, uid=uid)
        self.acknowledged += 1

    def counting(self, key: Key, value: int) -> None:
        """A new value is sent."""
        self.known[key] = self.known[key]._replace(most=value)

    def counted(self, key: Key, value: int) -> None:
        """It was acknowledged."""
        self.known[key] = self.known[key]._replace(least=value)
        self.acknowledged += 1

    def deleting(self, key: Key) -> None:
        """A delete is sent."""
        self.known[key] = self.known[key]._replace(must_exist=False)

    def deleted(self, key: Key) -> None:
        """It was acknowledged."""
        self.known[key] = self.known[key]._replace(may_exist=False)
        self.acknowledged += 1

    def refused(self, key: Key) -> None:
        """A create was answered with a refusal: nothing is there."""
        self.known[key] = Known(may_exist=False, must_exist=False)

    def compared(self, found: dict[Key, tuple[str, int]]) -> Iterator[str]:
        """What is wrong with the objects that a lab has (by key: uid and counter), against what it said."""
        for key, known in self.known.items():
            there = found.get(key)
            if there is None:
                if known.must_exist:
                    yield f"{_words(key)}: acknowledged, and lost"
                continue
            uid, value = there
            if not known.may_exist:
                yield f"{_words(key)}: its deletion was acknowledged, and it is there"
            elif known.uid and uid != known.uid:
                yield f"{_words(key)}: created as {known.uid}, now another object"
            elif not known.least <= value <= known.most:
                yield f"{_words(key)}: counts {value}, acknowledged {known.least}, sent {known.most}"

    def settle(self, found: dict[Key, tuple[str, int]]) -> None:
        """After a restart: what was uncertain is what was found."""
        for key in list(self.known):
            there = found.get(key)
            if there is not None:
                uid, value = there
                self.known[key] = Known(may_exist=True, must_exist=True, uid=uid, least=value, most=value)
            else:
                del self.known[key]


def _words(key: Key) -> str:
    return f"{key[0]} {key[1]}"
