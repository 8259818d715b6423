"""Which devices a request is for, by the words of drivers: its class, and what its selectors say of driver and type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import words_of
from allotment.tools.check.selectors.expressions import Compared, expression
from allotment.tools.check.selectors.necessary_conditions import certain_comparisons
from allotment.tools.views import RequestView, SelectorView
from allotment.vocabulary import Vocabulary
from allotment.vocabulary.drivers import installed_classes


class Kinds(NamedTuple):
    """The driver that a request is for, and which of its device types."""

    words: Vocabulary
    types: frozenset[str]


def kinds_of(bundle: Bundle, request: RequestView) -> Kinds | None:
    """What a request is for; None where class and selectors do not tell the driver, or nobody told us of it."""
    selectors = [*class_selectors(bundle, request.class_name), *request.selectors]
    known = {view.name for view in bundle.classes}
    driver, types = "", frozenset[str]()
    if request.class_name not in known and request.class_name in installed_classes():
        driver, term = installed_classes()[request.class_name]
        types = frozenset(term.types)
    told = {name for selector in selectors for name, _ in expression(bundle, selector).drivers}
    if not driver and len(told) == 1:
        driver = told.pop()
    words = words_of(bundle, driver) if driver else None
    if words is None:
        return None
    types = types or frozenset(kind.name for kind in words.types)
    for one in comparisons(bundle, selectors, "attributes", words.domain, "type"):
        values = {literal.value for literal in one.literals}
        if one.operator in ("==", "in"):
            types &= {name for name in types if name in values}
        elif one.operator == "!=":
            types -= {name for name in types if name in values}
    return Kinds(words, types) if types else None


def class_selectors(bundle: Bundle, name: str) -> Iterator[SelectorView]:
    """The selectors of a class of the files."""
    for view in bundle.classes:
        if view.name == name:
            yield from view.selectors


def comparisons(
    bundle: Bundle, selectors: Iterable[SelectorView], kind: str, domain: str, name: str
) -> Iterator[Compared]:
    """What must hold of one attribute or capacity: the comparisons among the outermost conditions of selectors."""
    for selector in selectors:
        for one in certain_comparisons(expression(bundle, selector)):
            if (one.access.kind, one.access.domain, one.access.name) == (kind, domain, name):
                yield one
