"""Sorts of device: a driver's type of device, as its vocabulary has it, or one of a driver that nobody thought of.

What is certain of a sort is its driver, its type, and of which names it has every, some or no device.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from allotment.tools.check.names.known_names import STANDARD
from allotment.tools.check.selectors.expressions import Access
from allotment.vocabulary import Vocabulary, vocabulary


class Sort(NamedTuple):
    """Devices of a driver and type; no ``driver`` for devices of one that nobody thought of."""

    driver: str
    type: str
    words: Vocabulary | None

    def __str__(self) -> str:
        if not self.driver:
            return "a device of another driver"
        return f"a device of {self.driver}" + (f" of type {self.type}" if self.type else "")


class Name(NamedTuple):
    """An attribute or capacity, as an expression names it."""

    kind: str
    domain: str
    name: str


def presence(access: Access, sort: Sort) -> str:
    """Whether devices of a sort have a name: ``always``, ``sometimes``, ``never``; ``unknown`` where none can tell."""
    name = Name(access.kind, access.domain, access.name)
    term = _term(sort.words, name) if sort.words is not None else None
    if term is not None:
        return term.get(sort.type) or term.get("") or "never"
    if sort.words is None and sort.driver and sort.driver == name.domain:
        return "unknown"
    words = vocabulary(name.domain)
    if words is not None and _term(words, name) is None:
        return "unknown"  # a name that the domain's own driver does not publish: another mistake
    if "." not in name.domain:
        return "unknown"  # hardly a domain
    # Of devices of who knows which driver, some have the names that drivers share.
    return "sometimes" if name.domain == STANDARD and not sort.driver else "never"


def _term(words: Vocabulary, name: Name) -> Mapping[str, str] | None:
    term = (words.attribute if name.kind == "attributes" else words.capacity)(name.domain, name.name)
    return None if term is None else term.on
