"""The driver and device types of a request, from its class and its selectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import vocabulary_of
from allotment.tools.check.selectors.expressions import LiteralComparison, parse_selector
from allotment.tools.check.selectors.necessary_conditions import necessary_comparisons
from allotment.tools.views import RequestView, SelectorView
from allotment.vocabulary import Vocabulary
from allotment.vocabulary.drivers import installed_classes


class RequestedTypes(NamedTuple):
    """The driver that a request is for, and the device types that can satisfy it."""

    vocabulary: Vocabulary
    types: frozenset[str]


def requested_types(bundle: Bundle, request: RequestView) -> RequestedTypes | None:
    """The driver and types of a request; None if class and selectors do not determine a known driver."""
    selectors = [*class_selectors(bundle, request.class_name), *request.selectors]
    class_names = {view.name for view in bundle.classes}
    driver, types = "", frozenset[str]()
    if request.class_name not in class_names and request.class_name in installed_classes():
        driver, term = installed_classes()[request.class_name]
        types = frozenset(term.types)
    compared_drivers = {name for selector in selectors for name, _ in parse_selector(bundle, selector).compared_drivers}
    if not driver and len(compared_drivers) == 1:
        driver = compared_drivers.pop()
    vocab = vocabulary_of(bundle, driver) if driver else None
    if vocab is None:
        return None
    types = types or frozenset(kind.name for kind in vocab.types)
    for comparison in required_comparisons(bundle, selectors, "attributes", vocab.domain, "type"):
        values = {literal.value for literal in comparison.literals}
        if comparison.operator in ("==", "in"):
            types &= {name for name in types if name in values}
        elif comparison.operator == "!=":
            types -= {name for name in types if name in values}
    return RequestedTypes(vocab, types) if types else None


def class_selectors(bundle: Bundle, name: str) -> Iterator[SelectorView]:
    """The selectors of a class of the files."""
    for view in bundle.classes:
        if view.name == name:
            yield from view.selectors


def required_comparisons(
    bundle: Bundle, selectors: Iterable[SelectorView], kind: str, domain: str, name: str
) -> Iterator[LiteralComparison]:
    """The comparisons of one attribute or capacity among the top-level conditions of selectors."""
    for selector in selectors:
        for comparison in necessary_comparisons(parse_selector(bundle, selector)):
            if (comparison.access.kind, comparison.access.domain, comparison.access.name) == (kind, domain, name):
                yield comparison
