"""The categories of devices that reach an expression or one of its accesses, and those for which it fails.

A device reaches an expression if the selectors before it match: those of the request's class, and those above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from allotment.cel.syntax.ast import Const
from allotment.model.loading import Document
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import STANDARD_DOMAIN, vocabulary_of
from allotment.tools.check.selectors.abstract_evaluation import may_hold, missing_accesses
from allotment.tools.check.selectors.device_types import DeviceCategory, presence
from allotment.tools.check.selectors.expressions import DeviceAccess, Expression, parse_expression, parse_selector
from allotment.tools.views import SelectorView, at
from allotment.vocabulary.drivers import installed_classes


class MissingAccess(NamedTuple):
    """An access that fails for some devices that reach it; with ``is_sometimes``, some devices of ``categories`` have
    it.
    """

    access: DeviceAccess
    categories: tuple[DeviceCategory, ...]
    is_sometimes: bool


def reaching_categories(bundle: Bundle, view: SelectorView) -> tuple[DeviceCategory, ...] | None:
    """The categories of devices that the selectors before this one match; None if unknown.

    These are the selectors of the request's class, from the files, the given cluster or a driver's chart, and those
    above it in the same list.
    """
    expr = parse_selector(bundle, view)
    preceding = preceding_selectors(bundle, view)
    if preceding is not None:
        if any(selector.located is None for selector in preceding):
            return None
        return _passing(_mentioned_categories(bundle, [expr, *preceding]), preceding)
    installed = installed_classes().get(view.class_name)
    if installed is None or view.where == "fragment":
        return None
    driver, term = installed
    return _passing(
        (DeviceCategory(driver, t, vocabulary_of(bundle, driver)) for t in term.types or ("",)),
        _selectors_above(bundle, view),
    )


def categories_of_class(bundle: Bundle, document: Document, class_name: str) -> tuple[DeviceCategory, ...] | None:
    """The categories of devices that a class selects; None if unknown."""
    path = ("requests", 0, "selectors", 0, "cel", "expression")
    return (
        reaching_categories(bundle, SelectorView(document, path, "true", "request", class_name)) if class_name else None
    )


def preceding_selectors(bundle: Bundle, view: SelectorView) -> list[Expression] | None:
    """The selectors that are evaluated before this one: its class's, and those above it in its list.

    None if the class is neither in the files nor in the given cluster.
    """
    if view.where == "class":
        return _selectors_above(bundle, view)
    if view.where == "fragment" or not view.class_name:
        return None
    device_class = next((selector for selector in bundle.classes if selector.name == view.class_name), None)
    if device_class is not None:
        selectors = [parse_selector(bundle, selector) for selector in device_class.selectors]
    elif view.class_name in bundle.known_classes:
        cluster_selectors = bundle.known_classes[view.class_name].spec.selectors or ()
        selectors = [
            parse_expression(bundle, selector.cel.expression)
            for selector in cluster_selectors
            if selector.cel is not None
        ]
    else:
        return None
    return [*selectors, *_selectors_above(bundle, view)]


def categories_reaching(bundle: Bundle, view: SelectorView, access: DeviceAccess) -> tuple[DeviceCategory, ...] | None:
    """The categories of devices for which an access matters: they reach the selector, and no other conjunct excludes
    them. None if unknown.
    """
    categories = reaching_categories(bundle, view)
    if categories is None:
        return None
    expr = parse_selector(bundle, view)
    start, stop = access.extent
    other_conjuncts = [term.node for term in expr.conjuncts if not term.start <= start < stop <= term.stop]
    return tuple(category for category in categories if all(may_hold(expr, node, category) for node in other_conjuncts))


def candidate_drivers(bundle: Bundle, view: SelectorView) -> tuple[str, ...]:
    """The known drivers whose devices a selector can select; empty if it is not restricted to known drivers.

    For a fragment and for a request of an unknown class, only the expression itself is considered.
    """
    expr = parse_selector(bundle, view)
    categories = reaching_categories(bundle, view)
    if categories is None:
        categories = _mentioned_categories(bundle, [expr])
        is_restricted = bool(expr.compared_drivers)
    else:
        is_restricted = True
    possible = [s for s in categories if all(may_hold(expr, term.node, s) for term in expr.conjuncts)]
    if not is_restricted or any(not category.driver for category in possible):
        return ()
    return tuple(dict.fromkeys(category.driver for category in possible))


def unguarded_accesses(bundle: Bundle, view: SelectorView) -> Iterator[MissingAccess]:
    """The accesses that fail for some device that reaches them, by position.

    Names that no driver of their domain publishes are left out, and so is everything if the reaching devices are
    unknown.
    """
    expr = parse_selector(bundle, view)
    if all(access.is_optional or not access.name for access in expr.accesses):
        return
    categories = reaching_categories(bundle, view)
    if not categories or expr.located is None:
        return
    categories_by_access: dict[int, list[DeviceCategory]] = {}
    for category in categories:
        for number in missing_accesses(expr, category):
            categories_by_access.setdefault(number, []).append(category)
    for number, affected in sorted(categories_by_access.items()):
        access = expr.accesses[number]
        yield MissingAccess(
            access, tuple(affected), any(presence(access, category) == "sometimes" for category in affected)
        )


# --- reaching devices ------------------------------------------------------------------------------------------------


def _selectors_above(bundle: Bundle, view: SelectorView) -> list[Expression]:
    """The selectors above this one in its list."""
    depth, number = next(((n, step) for n, step in reversed([*enumerate(view.path)]) if isinstance(step, int)), (0, 0))
    selectors = at(view.document.tree, view.path[:depth]) if number else None
    expressions = (
        [at(item, view.path[depth + 1 :]) for item in selectors[:number]] if isinstance(selectors, list) else []
    )
    return [parse_expression(bundle, source) for source in expressions if isinstance(source, str)]


def _mentioned_categories(bundle: Bundle, expressions: Iterable[Expression]) -> tuple[DeviceCategory, ...]:
    """The categories that expressions distinguish: those of the drivers that they name, and all other devices as one.

    Types that only exist on request count if an expression mentions them.
    """
    drivers: dict[str, None] = {}
    strings: set[object] = set()
    for expr in expressions:
        strings.update(node.value for node in expr.nodes if isinstance(node, Const) and node.kind == "string")
        drivers.update(dict.fromkeys(name for name, _ in expr.compared_drivers))
        drivers.update(
            dict.fromkeys(a.domain for a in expr.accesses if "." in a.domain and a.domain != STANDARD_DOMAIN)
        )
    categories = [DeviceCategory("", "", None)]
    for driver in drivers:
        vocab = vocabulary_of(bundle, driver)
        types = [t.name for t in vocab.types if not t.special or t.name in strings] if vocab is not None else []
        categories.extend(DeviceCategory(driver, expr, vocab) for expr in types or ("",))
    return tuple(categories)


def _passing(categories: Iterable[DeviceCategory], selectors: Iterable[Expression]) -> tuple[DeviceCategory, ...]:
    parsed = [selector for selector in selectors if selector.located is not None]
    return tuple(
        category
        for category in categories
        if all(
            may_hold(selector, selector.located.parsed.expr, category)
            for selector in parsed
            if selector.located is not None
        )
    )
