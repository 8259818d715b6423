"""Categories of devices for the analysis of selectors: a type of device in a driver's vocabulary, or any unknown
driver.

Known about a category are its driver, its type, and which names all, some or none of its devices have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from allotment.tools.check.names.known_names import STANDARD_DOMAIN
from allotment.tools.check.selectors.expressions import DeviceAccess
from allotment.vocabulary import Vocabulary, vocabulary


class DeviceCategory(NamedTuple):
    """Devices of a driver and type; ``driver`` is empty for devices of any other driver."""

    driver: str
    type: str
    vocabulary: Vocabulary | None

    def __str__(self) -> str:
        if not self.driver:
            return "a device of another driver"
        return f"a {self.driver} device" + (f" of type {self.type}" if self.type else "")


class AccessKey(NamedTuple):
    """An attribute or capacity, as an expression names it."""

    kind: str
    domain: str
    name: str


def presence(access: DeviceAccess, category: DeviceCategory) -> str:
    """Whether devices of a category have a name: ``always``, ``sometimes``, ``never``, or ``unknown``."""
    name = AccessKey(access.kind, access.domain, access.name)
    term = _term(category.vocabulary, name) if category.vocabulary is not None else None
    if term is not None:
        return term.get(category.type) or term.get("") or "never"
    if category.vocabulary is None and category.driver and category.driver == name.domain:
        return "unknown"
    vocab = vocabulary(name.domain)
    if vocab is not None and _term(vocab, name) is None:
        return "unknown"  # the domain's own driver does not publish it: reported by another rule
    if "." not in name.domain:
        return "unknown"  # probably not a domain
    # Some devices of other drivers have the standard names.
    return "sometimes" if name.domain == STANDARD_DOMAIN and not category.driver else "never"


def _term(vocab: Vocabulary, name: AccessKey) -> Mapping[str, str] | None:
    term = (vocab.attribute if name.kind == "attributes" else vocab.capacity)(name.domain, name.name)
    return None if term is None else term.on
