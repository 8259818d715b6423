"""Guesses the domain of a name that is written without one, and whether it is an attribute or a capacity.

In order of precedence, it uses the driver that the expression tests, the devices that the class selects, the domains of
other names, the class's name, and whether only one driver publishes such a name.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import vocabularies, vocabulary_of
from allotment.tools.check.selectors.expressions import AccessKind, Expression
from allotment.tools.check.selectors.reachability import candidate_drivers
from allotment.tools.views import SelectorView
from allotment.vocabulary import Vocabulary, guessed_classes, installed_classes, mistaken_drivers, vendors


class DomainGuess(NamedTuple):
    """A domain, the map that contains the name, and the reason: ``the class selects devices of gpu.nvidia.com``."""

    domain: str
    kind: AccessKind
    reason: str


def guess_domain(
    bundle: Bundle, view: SelectorView, expr: Expression, name: str, kind: AccessKind
) -> DomainGuess | None:
    """The probable domain of ``name``; None without a clue."""
    driver, reason = _driver(bundle, view, expr, name)
    if not driver:
        return None
    vocab = vocabulary_of(bundle, driver)
    if vocab is None:
        return DomainGuess(driver, kind, reason)
    full_name = _full_name(vocab, name, kind)
    domain = full_name.rpartition("/")[0] or vocab.domain
    return DomainGuess(domain, _kind(vocab, f"{domain}/{full_name.rpartition('/')[2]}", kind), reason)


def _driver(bundle: Bundle, view: SelectorView, expr: Expression, name: str) -> tuple[str, str]:
    compared = list(dict.fromkeys(mistaken_drivers().get(driver, driver) for driver, _ in expr.compared_drivers))
    if len(compared) == 1 and "." in compared[0] and not compared[0][0].isdigit():
        return compared[0], f"the expression tests for driver {expr.compared_drivers[0][0]}"
    candidates = list(
        dict.fromkeys(mistaken_drivers().get(driver, driver) for driver in candidate_drivers(bundle, view))
    )
    if len(candidates) == 1:
        return candidates[0], f"the {'class' if view.class_name else 'expression'} selects devices of {candidates[0]}"
    other_domains = list(dict.fromkeys(a.domain for a in expr.accesses if vocabulary_of(bundle, a.domain) is not None))
    if len(other_domains) == 1:
        return other_domains[0], f"the other names are in domain {other_domains[0]}"
    if view.class_name:
        driver = _driver_of_class(view.class_name)
        if driver:
            return driver, f"the name of class {view.class_name} suggests {driver}"
    publishers = [vocab.driver for vocab in vocabularies(bundle) if _has_name(vocab, name)]
    if len(publishers) == 1:
        return publishers[0], f"{publishers[0]} is known to publish {name}"
    return "", ""


def _driver_of_class(name: str) -> str:
    """The driver that a class's name indicates."""
    name = guessed_classes().get(name, name)
    if name in installed_classes():
        return installed_classes()[name][0]
    name_words = set(re.findall(r"[a-z0-9]+", name.lower()))
    vendor_drivers = [driver_names[0] for vendor, driver_names in vendors().items() if vendor in name_words]
    return vendor_drivers[0] if len(vendor_drivers) == 1 else ""


def _has_name(vocab: Vocabulary, name: str) -> bool:
    full_name = f"{vocab.domain}/{name}"
    return full_name in vocab.attributes_by_name or full_name in vocab.capacities_by_name or name in vocab.guessed


def _full_name(vocab: Vocabulary, name: str, kind: AccessKind) -> str:
    """The full name for a name without a domain: the driver's own, else a standard one."""
    names = (*vocab.attributes_by_name, *vocab.capacities_by_name)
    for full_name in (f"{vocab.domain}/{name}", *names):
        if full_name in names and full_name.rpartition("/")[2] == name:
            return full_name
    # A commonly mistaken name keeps its spelling here: another rule reports it.
    return f"{vocab.guessed[name].rpartition('/')[0]}/{name}" if name in vocab.guessed else f"{vocab.domain}/{name}"


def _kind(vocab: Vocabulary, full_name: str, kind: AccessKind) -> AccessKind:
    full_name = vocab.guessed.get(full_name.rpartition("/")[2], full_name)
    if full_name in vocab.attributes_by_name:
        return "attributes"
    return "capacity" if full_name in vocab.capacities_by_name else kind
