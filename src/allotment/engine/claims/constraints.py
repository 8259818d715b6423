"""Constraints over the devices of a claim: ``matchAttribute`` and ``distinctAttribute`` (KEP-4381, 5075, 5491).

Every attribute value is a set of elements: one for a scalar, several for a list. Devices *match* while the intersection
of their sets is not empty; they are *distinct* while their sets are disjoint. Versions are compared as text, including
build metadata. A request may define the attribute itself, by a CEL expression (DRADerivedAttributes, 1.37); a
constraint then compares the expression's value for the devices of that request. These are upstream's semantics without
its two defects: backtracking restores the intersection, and distinct compares all devices, not only the last one of
each request.
"""

from __future__ import annotations

from typing import NamedTuple

from allotment.cel import CompileError, DerivedAttribute
from allotment.model.resource import Device, DeviceAttribute, DeviceConstraint

Element = tuple[str, int | bool | str]
#: An attribute's value. Empty: a value that only a single device may have (a list while DRAListTypeAttributes is off).
Elements = tuple[Element, ...]


class Constraint(NamedTuple):
    """One constraint of a claim. If both attributes are set, match takes precedence, as in upstream."""

    distinct: bool
    attribute: str
    """Fully qualified: ``domain/name``."""
    requests: frozenset[str]
    """References ``main`` or ``main/sub``; empty means every request."""

    def applies(self, main: str, full: str) -> bool:
        """Whether the constraint applies to devices of the request ``full`` (``main`` or ``main/sub``)."""
        return not self.requests or main in self.requests or full in self.requests


class DerivedExpression(NamedTuple):
    """The expression of a derived attribute. ``compiled`` is the error if it does not compile, reported on use."""

    expression: str
    compiled: DerivedAttribute | CompileError


class ValueSource(NamedTuple):
    """The values that a constraint compares for the devices of some requests."""

    constraint: int
    """Index among the pod's constraints."""
    attribute: str
    derived: DerivedExpression | None
    """The requests' own definition of the attribute (1.37); ``None`` for the published attribute."""


def constraint(spec: DeviceConstraint) -> Constraint | None:
    """The compiled constraint, or ``None`` for an unknown type."""
    if spec.match_attribute is not None:
        return Constraint(False, spec.match_attribute, frozenset(spec.requests))
    if spec.distinct_attribute is not None:
        return Constraint(True, spec.distinct_attribute, frozenset(spec.requests))
    return None


def find_attribute(device: Device, driver: str, attribute: str) -> DeviceAttribute | None:
    """The attribute by its full name, or by its bare name if the domain is the device's driver."""
    found = device.attributes.get(attribute)
    if found is None:
        domain, slash, name = attribute.partition("/")
        if slash and domain == driver:
            return device.attributes.get(name)
    return found


def elements(attribute: DeviceAttribute | None, lists: bool) -> Elements | None:
    """The elements of an attribute's value, ascending, or ``None`` if the device cannot satisfy any constraint.

    ``lists``: whether DRAListTypeAttributes is on.
    """
    if attribute is None:
        return None
    if lists:
        for kind, many in (
            ("int", attribute.ints),
            ("bool", attribute.bools),
            ("string", attribute.strings),
            ("version", attribute.versions),
        ):
            if many:
                return tuple(sorted({(kind, value) for value in many}))
    if attribute.string is not None:
        return (("string", attribute.string),)
    if attribute.int_ is not None:
        return (("int", attribute.int_),)
    if attribute.bool_ is not None:
        return (("bool", attribute.bool_),)
    if attribute.version is not None:
        return (("version", attribute.version),)
    return None if lists else ()
