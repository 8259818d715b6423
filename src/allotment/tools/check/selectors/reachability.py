"""Which sorts of device get to an expression, which decide there, and for which it is an error.

What gets there is what the selectors before it let through: those of the request's class, and those above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from allotment.cel.syntax.ast import Const
from allotment.model.loading import Document
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import STANDARD, words_of
from allotment.tools.check.selectors.abstract_evaluation import may_hold, missing
from allotment.tools.check.selectors.device_types import Sort, presence
from allotment.tools.check.selectors.expressions import Access, Expression, expression, expression_of
from allotment.tools.views import SelectorView, at
from allotment.vocabulary.drivers import installed_classes


class Lack(NamedTuple):
    """An access that is an error for some devices that get to it: ``sorts`` never have it, or, ``sometimes``, may."""

    access: Access
    sorts: tuple[Sort, ...]
    sometimes: bool


def reaching(bundle: Bundle, view: SelectorView) -> tuple[Sort, ...] | None:
    """The sorts of device that the selectors before this one let through; None where nobody can tell.

    Those are the selectors of the request's class, from the files, the given cluster or a driver's chart, and those
    that stand above in the same list.
    """
    own = expression(bundle, view)
    passed = selectors_passed(bundle, view)
    if passed is not None:
        if any(one.located is None for one in passed):
            return None
        return _through(_sorts(bundle, [own, *passed]), passed)
    installed = installed_classes().get(view.class_name)
    if installed is None or view.where == "fragment":
        return None
    driver, term = installed
    return _through((Sort(driver, t, words_of(bundle, driver)) for t in term.types or ("",)), _above(bundle, view))


def sorts_of_class(bundle: Bundle, document: Document, class_name: str) -> tuple[Sort, ...] | None:
    """The sorts of device that a class selects; None where nobody can tell."""
    path = ("requests", 0, "selectors", 0, "cel", "expression")
    return reaching(bundle, SelectorView(document, path, "true", "request", class_name)) if class_name else None


def selectors_passed(bundle: Bundle, view: SelectorView) -> list[Expression] | None:
    """The selectors that a device has passed when this one looks at it: its class's, and those above in its list.

    None where the class stands neither in the files nor in the given cluster.
    """
    if view.where == "class":
        return _above(bundle, view)
    if view.where == "fragment" or not view.class_name:
        return None
    made = next((one for one in bundle.classes if one.name == view.class_name), None)
    if made is not None:
        selectors = [expression(bundle, one) for one in made.selectors]
    elif view.class_name in bundle.known_classes:
        found = bundle.known_classes[view.class_name].spec.selectors or ()
        selectors = [expression_of(bundle, one.cel.expression) for one in found if one.cel is not None]
    else:
        return None
    return [*selectors, *_above(bundle, view)]


def reaching_access(bundle: Bundle, view: SelectorView, access: Access) -> tuple[Sort, ...] | None:
    """The sorts of device for which an access decides: that get to the selector, and that no other conjunct of it
    rules out. None where nobody can tell."""
    sorts = reaching(bundle, view)
    if sorts is None:
        return None
    read = expression(bundle, view)
    start, stop = access.extent
    others = [term.node for term in read.conjuncts if not term.start <= start < stop <= term.stop]
    return tuple(sort for sort in sorts if all(may_hold(read, node, sort) for node in others))


def drivers_meant(bundle: Bundle, view: SelectorView) -> tuple[str, ...]:
    """The known drivers whose devices a selector can select, by what else is known of it; none where nobody can tell.

    A fragment, and a request of a class that nobody knows, have their own expression only.
    """
    read = expression(bundle, view)
    sorts = reaching(bundle, view)
    if sorts is None:
        sorts = _sorts(bundle, [read])
        tested = bool(read.drivers)
    else:
        tested = True
    holding = [s for s in sorts if all(may_hold(read, term.node, s) for term in read.conjuncts)]
    if not tested or any(not sort.driver for sort in holding):
        return ()
    return tuple(dict.fromkeys(sort.driver for sort in holding))


def lacking(bundle: Bundle, view: SelectorView) -> Iterator[Lack]:
    """The accesses that make evaluation an error for some device that gets there, by position.

    Names that no driver of their domain publishes are left out, as is everything where nobody can tell what gets there.
    """
    read = expression(bundle, view)
    if all(access.tolerant or not access.name for access in read.accesses):
        return
    sorts = reaching(bundle, view)
    if not sorts or read.located is None:
        return
    blamed: dict[int, list[Sort]] = {}
    for sort in sorts:
        for number in missing(read, sort):
            blamed.setdefault(number, []).append(sort)
    for number, found in sorted(blamed.items()):
        access = read.accesses[number]
        yield Lack(access, tuple(found), any(presence(access, sort) == "sometimes" for sort in found))


# --- what gets there -------------------------------------------------------------------------------------------------


def _above(bundle: Bundle, view: SelectorView) -> list[Expression]:
    """The selectors above this one in its list."""
    depth, number = next(((n, step) for n, step in reversed([*enumerate(view.path)]) if isinstance(step, int)), (0, 0))
    listed = at(view.document.tree, view.path[:depth]) if number else None
    above = [at(item, view.path[depth + 1 :]) for item in listed[:number]] if isinstance(listed, list) else []
    return [expression_of(bundle, one) for one in above if isinstance(one, str)]


def _sorts(bundle: Bundle, read: Iterable[Expression]) -> tuple[Sort, ...]:
    """The sorts of device that expressions tell apart: those of the drivers that they name, and all others as one.

    Types that there are only where somebody wanted them count where an expression speaks of them.
    """
    drivers: dict[str, None] = {}
    spoken: set[object] = set()
    for one in read:
        spoken.update(node.value for node in one.nodes if isinstance(node, Const) and node.kind == "string")
        drivers.update(dict.fromkeys(name for name, _ in one.drivers))
        drivers.update(dict.fromkeys(a.domain for a in one.accesses if "." in a.domain and a.domain != STANDARD))
    found = [Sort("", "", None)]
    for driver in drivers:
        words = words_of(bundle, driver)
        types = [t.name for t in words.types if not t.special or t.name in spoken] if words is not None else []
        found.extend(Sort(driver, one, words) for one in types or ("",))
    return tuple(found)


def _through(sorts: Iterable[Sort], before: Iterable[Expression]) -> tuple[Sort, ...]:
    read = [one for one in before if one.located is not None]
    return tuple(
        sort
        for sort in sorts
        if all(may_hold(one, one.located.parsed.expr, sort) for one in read if one.located is not None)
    )
