"""In which domain a name was meant that was written without one, and whether it is an attribute or a capacity.

What the expression says of the driver counts most, then what the class lets through, then the class's name, then
whether only one driver has such a name.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import vocabularies, words_of
from allotment.tools.check.selectors.expressions import AccessKind, Expression
from allotment.tools.check.selectors.reachability import drivers_meant
from allotment.tools.views import SelectorView
from allotment.vocabulary import Vocabulary, guessed_classes, installed_classes, mistaken_drivers, vendors


class Meant(NamedTuple):
    """A domain, the map in which the name is, and why: ``the class selects devices of gpu.nvidia.com``."""

    domain: str
    kind: AccessKind
    why: str


def meant(bundle: Bundle, view: SelectorView, read: Expression, name: str, kind: AccessKind) -> Meant | None:
    """Where ``name`` is; None where nothing tells."""
    driver, why = _driver(bundle, view, read, name)
    if not driver:
        return None
    words = words_of(bundle, driver)
    if words is None:
        return Meant(driver, kind, why)
    full = _full(words, name, kind)
    domain = full.rpartition("/")[0] or words.domain
    return Meant(domain, _kind(words, f"{domain}/{full.rpartition('/')[2]}", kind), why)


def _driver(bundle: Bundle, view: SelectorView, read: Expression, name: str) -> tuple[str, str]:
    tested = list(dict.fromkeys(mistaken_drivers().get(driver, driver) for driver, _ in read.drivers))
    if len(tested) == 1 and "." in tested[0] and not tested[0][0].isdigit():
        return tested[0], f"the expression asks for {read.drivers[0][0]}"
    reached = list(dict.fromkeys(mistaken_drivers().get(driver, driver) for driver in drivers_meant(bundle, view)))
    if len(reached) == 1:
        return reached[0], f"{'the class selects' if view.class_name else 'these are'} devices of {reached[0]}"
    beside = list(dict.fromkeys(a.domain for a in read.accesses if words_of(bundle, a.domain) is not None))
    if len(beside) == 1:
        return beside[0], f"the other names are of {beside[0]}"
    if view.class_name:
        driver = _of_class(view.class_name)
        if driver:
            return driver, f"class {view.class_name} sounds like {driver}"
    having = [words.driver for words in vocabularies(bundle) if _has(words, name)]
    if len(having) == 1:
        return having[0], f"{having[0]} is known to publish {name}"
    return "", ""


def _of_class(name: str) -> str:
    """The driver that a class's name tells."""
    name = guessed_classes().get(name, name)
    if name in installed_classes():
        return installed_classes()[name][0]
    words = set(re.findall(r"[a-z0-9]+", name.lower()))
    told = [of[0] for vendor, of in vendors().items() if vendor in words]
    return told[0] if len(told) == 1 else ""


def _has(words: Vocabulary, name: str) -> bool:
    full = f"{words.domain}/{name}"
    return full in words.attributes_by_name or full in words.capacities_by_name or name in words.guessed


def _full(words: Vocabulary, name: str, kind: AccessKind) -> str:
    """The full name of what a name without a domain stands for: the driver's own, else one that drivers share."""
    names = (*words.attributes_by_name, *words.capacities_by_name)
    for full in (f"{words.domain}/{name}", *names):
        if full in names and full.rpartition("/")[2] == name:
            return full
    # A name that was guessed at stays as it is: what it is called is another finding.
    return f"{words.guessed[name].rpartition('/')[0]}/{name}" if name in words.guessed else f"{words.domain}/{name}"


def _kind(words: Vocabulary, full: str, kind: AccessKind) -> AccessKind:
    full = words.guessed.get(full.rpartition("/")[2], full)
    if full in words.attributes_by_name:
        return "attributes"
    return "capacity" if full in words.capacities_by_name else kind
