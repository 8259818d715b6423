"""``Reader``: the namespaces whose objects an answer may name.

A text that reaches a tenant, such as an event of the tenant's pod, must not name claims and pods of other namespaces.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from allotment.phrases import counted


class Reader(NamedTuple):
    """The reader of an answer. ``namespaces``: those that the reader may see; None for all."""

    namespaces: frozenset[str] | None = None

    @classmethod
    def of(cls, namespace: str) -> Reader:
        """The reader of what the pods of a namespace show: only this namespace."""
        return cls(frozenset({namespace}))

    def may_see(self, namespace: str) -> bool:
        """Whether the reader may see the objects of a namespace."""
        return self.namespaces is None or namespace in self.namespaces

    def within(self, namespaces: Collection[str]) -> Reader:
        """The reader restricted to ``namespaces``: readers who see the same of these are equal."""
        return self if self.namespaces is None else Reader(self.namespaces.intersection(namespaces))


#: May see all namespaces.
EVERYTHING = Reader()


def other_claims(count: int) -> str:
    """Claims that the reader may not see.

    >>> other_claims(1), other_claims(3)
    ('1 claim of another namespace', '3 claims of other namespaces')
    """
    return f"{counted(count, 'claim')} of {'another namespace' if count == 1 else 'other namespaces'}"
