"""Which class was meant by a name that nobody made: ``any-nvidia-gpu``, ``nvidia-gpu-mig``, ``nvidia-h100``.

People name classes for what they want of them. The vendor and the type of device in such a name lead to the class that
the vendor's chart installs; a model in it becomes a selector, so that what was said is not lost.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from allotment.fleet.profiles import Accelerator, accelerators
from allotment.tools.check.names.known_names import slip
from allotment.tools.views import RequestView
from allotment.vocabulary import ClassTerm, Vocabulary

_DOMAIN = re.compile(r"""device\s*\.\s*(?:attributes|capacity)\s*\[\s*["']([^"']+)["']""")
#: Domains that are reserved for examples (RFC 2606).
_MADE_UP = re.compile(r"(^|\.)example(\.(com|net|org|io))?$")
#: What a class of the usual type is called, by the words of drivers' vendors.
_PLAIN_TYPES = ("gpu", "amdgpu", "tpu", "")


class Meant(NamedTuple):
    """A class, why it is taken for the one that was meant, and a selector that says the rest of the name."""

    name: str
    why: str
    selector: str = ""


def meant_class(
    name: str, request: RequestView | None, known: Iterable[str], charts: Iterable[Vocabulary]
) -> Meant | None:
    """The class that ``name`` was meant for; None where nothing leads to one. ``known`` are those of files and cluster.

    Only classes of ``charts`` are guessed at.
    """
    charts = tuple(charts)
    for chart in charts:
        term = chart.device_class(chart.guessed_classes.get(name, ""))
        if term is not None:
            return Meant(term.name, _why(chart, term))
    # Names of examples are made up, and names of profiles and sizes differ in their numbers.
    numbers = re.findall(r"[0-9]+", name)
    near = "" if _MADE_UP.search(name) else slip(name, (one for one in known if re.findall(r"[0-9]+", one) == numbers))
    if near:
        return Meant(near, f"there is a class {near}")
    words = _words(name)
    expressions = " ".join(selector.expression for selector in request.selectors) if request else ""
    domains = set(_DOMAIN.findall(expressions))
    best: tuple[int, Vocabulary, ClassTerm] | None = None
    for chart in charts:
        told = _tells(chart, words, domains)
        if not told:
            continue
        for term in chart.classes:
            score = 8 * told + _fit(term, words)
            if best is None or score > best[0]:
                best = (score, chart, term)
    if best is None:
        return None
    _, chart, term = best
    return Meant(term.name, _why(chart, term), _model(chart, words, expressions))


def _why(chart: Vocabulary, term: ClassTerm) -> str:
    return f"the chart of {chart.driver} installs class {term.name}: {term.meaning}"


def _words(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", name.lower()))


def _tells(chart: Vocabulary, words: Collection[str], domains: Collection[str]) -> int:
    """How surely a driver is meant: by what selectors read, by its vendor's name, or not at all."""
    vendors = _words(chart.vendor) | _words(chart.driver)
    vendors -= {"gpu", "com", "io", "net", "cpu", "dra", "example"}
    named = bool(vendors & set(words))
    return 2 * (chart.driver in domains) + named


def _fit(term: ClassTerm, words: Collection[str]) -> int:
    """How well a class fits the words of a name: it has a type that is named, else one that is usual."""
    label = _words(term.name.partition(".")[0])
    best = -3
    for kind in term.types or ("",):
        special = (_words(kind) | label) - set(_PLAIN_TYPES)
        best = max(best, 1 if not special else 3 if special & set(words) else -3)
    return best


def _model(chart: Vocabulary, words: Collection[str], expressions: str) -> str:
    """The selector for a model that the name tells; empty where it tells none, or a selector speaks of it already."""
    product = chart.attribute(chart.domain, "productName")
    if product is None or "productName" in expressions:
        return ""
    for word in sorted(words, key=len, reverse=True):
        named = [one for one in accelerators().values() if _named(one, word)]
        if named and all(one.product in product.values for one in named):
            value = f'device.attributes["{chart.domain}"].productName'
            alike = [one for one in accelerators().values() if word.upper() in one.product and one not in named]
            return f'{value} == "{named[0].product}"' if alike else f'{value}.contains("{word.upper()}")'
    return ""


def _named(accelerator: Accelerator, word: str) -> bool:
    """Whether a word is the model of an accelerator: ``h100``, not ``nvidia`` and not ``80gb``."""
    return any(alias == word or alias.startswith(f"{word}-") for alias in accelerator.aliases) and any(
        letter.isdigit() for letter in word
    )
