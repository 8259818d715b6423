"""Suggests an existing class for an unknown class name: ``any-nvidia-gpu``, ``nvidia-gpu-mig``, ``nvidia-h100``.

Class names in tutorials usually describe the device. The vendor and device type in such a name lead to the class that
the vendor's chart installs; a GPU model becomes a selector, so that this requirement is not lost.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from allotment.fleet.profiles import Accelerator, accelerators
from allotment.tools.check.names.known_names import typo_of
from allotment.tools.views import RequestView
from allotment.vocabulary import ClassTerm, Vocabulary

_DOMAIN = re.compile(r"""device\s*\.\s*(?:attributes|capacity)\s*\[\s*["']([^"']+)["']""")
#: Domains that are reserved for examples (RFC 2606).
_EXAMPLE_DOMAIN = re.compile(r"(^|\.)example(\.(com|net|org|io))?$")
#: Device types of plain devices, as opposed to partitions and virtual devices.
_PLAIN_TYPES = ("gpu", "amdgpu", "tpu", "")


class ClassSuggestion(NamedTuple):
    """A class, the reason for suggesting it, and a selector for the GPU model in the name."""

    name: str
    reason: str
    selector: str = ""


def suggest_class(
    name: str, request: RequestView | None, known: Iterable[str], charts: Iterable[Vocabulary]
) -> ClassSuggestion | None:
    """The class that ``name`` probably stands for; None without a suggestion. ``known`` are the classes of files and
    cluster.

    Only classes that ``charts`` install are guessed.
    """
    charts = tuple(charts)
    for chart in charts:
        term = chart.device_class(chart.guessed_classes.get(name, ""))
        if term is not None:
            return ClassSuggestion(term.name, _reason(chart, term))
    # Example domains are invented names, and names with different numbers denote different profiles or sizes.
    numbers = re.findall(r"[0-9]+", name)
    similar = (
        ""
        if _EXAMPLE_DOMAIN.search(name)
        else typo_of(name, (candidate for candidate in known if re.findall(r"[0-9]+", candidate) == numbers))
    )
    if similar:
        return ClassSuggestion(similar, f"class {similar} exists")
    parts = _name_parts(name)
    expressions = " ".join(selector.expression for selector in request.selectors) if request else ""
    domains = set(_DOMAIN.findall(expressions))
    best_match: tuple[int, Vocabulary, ClassTerm] | None = None
    for chart in charts:
        driver_score = _driver_score(chart, parts, domains)
        if not driver_score:
            continue
        for term in chart.classes:
            score = 8 * driver_score + _type_score(term, parts)
            if best_match is None or score > best_match[0]:
                best_match = (score, chart, term)
    if best_match is None:
        return None
    _, chart, term = best_match
    return ClassSuggestion(term.name, _reason(chart, term), _model_selector(chart, parts, expressions))


def _reason(chart: Vocabulary, term: ClassTerm) -> str:
    return f"the chart of {chart.driver} installs class {term.name}: {term.meaning}"


def _name_parts(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", name.lower()))


def _driver_score(chart: Vocabulary, parts: Collection[str], domains: Collection[str]) -> int:
    """The likelihood of a driver: 2 if selectors read its attributes, plus 1 if the name contains its vendor."""
    vendors = _name_parts(chart.vendor) | _name_parts(chart.driver)
    vendors -= {"gpu", "com", "io", "net", "cpu", "dra", "example"}
    names_vendor = bool(vendors & set(parts))
    return 2 * (chart.driver in domains) + names_vendor


def _type_score(term: ClassTerm, parts: Collection[str]) -> int:
    """The match of a class and a name's parts: best if they name its special type, then if it has no special type."""
    label = _name_parts(term.name.partition(".")[0])
    best = -3
    for kind in term.types or ("",):
        special = (_name_parts(kind) | label) - set(_PLAIN_TYPES)
        best = max(best, 1 if not special else 3 if special & set(parts) else -3)
    return best


def _model_selector(chart: Vocabulary, parts: Collection[str], expressions: str) -> str:
    """The selector for a GPU model in the name; empty if there is none, or if a selector restricts the product."""
    product = chart.attribute(chart.domain, "productName")
    if product is None or "productName" in expressions:
        return ""
    for word in sorted(parts, key=len, reverse=True):
        matching = [accelerator for accelerator in accelerators().values() if _is_model_name(accelerator, word)]
        if matching and all(accelerator.product in product.values for accelerator in matching):
            value = f'device.attributes["{chart.domain}"].productName'
            ambiguous = [
                accelerator
                for accelerator in accelerators().values()
                if word.upper() in accelerator.product and accelerator not in matching
            ]
            return f'{value} == "{matching[0].product}"' if ambiguous else f'{value}.contains("{word.upper()}")'
    return ""


def _is_model_name(accelerator: Accelerator, word: str) -> bool:
    """Whether a word is the model of an accelerator: ``h100``, not ``nvidia`` or ``80gb``."""
    return any(alias == word or alias.startswith(f"{word}-") for alias in accelerator.aliases) and any(
        letter.isdigit() for letter in word
    )
