"""V304: a value that an attribute never has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from allotment.engine.diagnosis.published_names import likeness, near, qualified
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import TYPO_LIKENESS, vocabulary_of
from allotment.tools.check.rule import Fix, RuleMatch, Rule
from allotment.tools.check.selectors.edits import replace_extent
from allotment.tools.check.selectors.expressions import LiteralComparison, Expression, LiteralValue, parsed_selectors
from allotment.tools.sentences import either, quoted
from allotment.tools.views import SelectorView
from allotment.vocabulary import Attribute

#: Attributes whose values have a rule of their own (V307).
_PROFILE = "gpu.nvidia.com/profile"


class _ValueSuggestion(NamedTuple):
    """What was probably meant: a value, or ``part`` of many."""

    value: str
    part: bool = False


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for view, expr in parsed_selectors(bundle):
        for comparison in expr.comparisons:
            access = comparison.access
            vocab = vocabulary_of(bundle, access.domain)
            term = vocab.attribute(access.domain, access.name) if vocab is not None else None
            if access.kind != "attributes" or term is None or term.kind != "string" or term.name == _PROFILE:
                continue
            known = {*term.values, *bundle.cached(_published_values).get(term.name, ())}
            if not known or comparison.operator not in ("==", "!=", "in"):
                continue
            for literal in comparison.literals:
                if isinstance(literal.value, str) and literal.value not in known:
                    yield from _check_value(view, expr, comparison, literal, term, known)


def _check_value(
    view: SelectorView, expr: Expression, comparison: LiteralComparison, literal: LiteralValue, term: Attribute, known: set[str]
) -> Iterator[RuleMatch]:
    value = str(literal.value)
    is_product = term.name.endswith("/productName")
    suggestions = _similar_products(value, known) if is_product else [_ValueSuggestion(candidate) for candidate in _similar_values(value, known, closed=term.closed)]
    if not suggestions and not term.closed:
        return
    message = f'no known device has {comparison.access.name} "{value}"'
    if len(suggestions) == 1 and not suggestions[0].part:
        message += f': did you mean "{suggestions[0].value}"?'
    elif suggestions:
        message += ": the names that have it in them are longer" if suggestions[0].part else ""
    values = sorted(candidate for candidate in known if value.lower() in candidate.lower()) if suggestions and suggestions[0].part else sorted(known)
    value_list = either(map(quoted, values[:12]))
    yield RuleMatch(
        view.document,
        view.path,
        message,
        help=f"{comparison.access.name} is {value_list}" + (", and so on" if len(values) > 12 else ""),
        fix=_fix(view, expr, comparison, literal, suggestions, known),
        span=literal.extent,
    )


def _fix(
    view: SelectorView, expr: Expression, comparison: LiteralComparison, literal: LiteralValue, suggestions: list[_ValueSuggestion], known: set[str]
) -> Fix | None:
    if len(suggestions) != 1:
        return None
    quote = "'" if view.expression[literal.extent[0]] == "'" else '"'
    text = f"{quote}{suggestions[0].value}{quote}"
    if not suggestions[0].part:
        edit = replace_extent(view, literal.extent, text)
        return Fix(f"compare with {text}", ((view.document, edit),), safe=False)
    start, stop = comparison.access.extent
    if comparison.operator == "in":
        models = [_similar_products(str(product.value), known) for product in comparison.literals]
        if any(len(product) != 1 or not product[0].part for product in models):
            return None
        tests = " || ".join(f"{view.expression[start:stop]}.contains({quote}{product[0].value}{quote})" for product in models)
        is_whole_expression = comparison.extent == (0, len(view.expression))
        edit = replace_extent(view, comparison.extent, tests if is_whole_expression else f"({tests})")
        text = f"ask whether {comparison.access.name} contains one of them"
        return Fix(text, ((view.document, edit),), safe=False)
    negation = "!" if comparison.operator == "!=" else ""
    edit = replace_extent(view, comparison.extent, f"{negation}{view.expression[start:stop]}.contains({text})")
    return Fix(f"ask whether {comparison.access.name} contains {text}", ((view.document, edit),), safe=False)


def _similar_values(value: str, known: set[str], *, closed: bool) -> list[str]:
    """The values that one was meant for. Where there may be others, a number makes it another value, not a slip.

    >>> _named("Amper", {"Ampere", "Hopper"}, closed=False), _named("0x2331", {"0x2330"}, closed=False)
    (['Ampere'], [])
    """
    same_spelling = sorted(candidate for candidate in known if _normalized(candidate) == _normalized(value))
    if same_spelling or closed:
        return same_spelling or list(near(value, known))
    if any(letter.isdigit() for letter in value):
        return []
    return [candidate for candidate in near(value, known) if likeness(value, candidate) >= TYPO_LIKENESS or set(_words(value)) < set(_words(candidate))]


def _similar_products(value: str, known: Iterable[str]) -> list[_ValueSuggestion]:
    """The product that a name was meant for. Only what cannot be a whole name is held to be none.

    >>> _product("h100", ["NVIDIA H100 80GB HBM3", "Tesla T4"]), _product("NVIDIA L40", ["NVIDIA L40S"])
    ([_Meant(value='H100', part=True)], [])
    """
    normalized = _normalized(value)
    if not normalized:
        return []
    same_spelling = [candidate for candidate in known if _normalized(candidate) == normalized]
    if same_spelling:
        return [_ValueSuggestion(candidate) for candidate in sorted(same_spelling)]
    containing = [candidate for candidate in sorted(known) if _contains_sequence(_words(candidate), _words(value))]
    if not containing:
        return []
    if value in containing[0] or value.upper() in containing[0]:
        return [_ValueSuggestion(value if value in containing[0] else value.upper(), part=True)]
    return [_ValueSuggestion(candidate) for candidate in containing] if len(containing) == 1 else []


def _contains_sequence(whole: list[str], part: list[str]) -> bool:
    """Whether words stand in a row among others: a model's name within a product's."""
    return any(whole[n : n + len(part)] == part for n in range(len(whole) - len(part) + 1))


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())


def _normalized(name: str) -> str:
    return "".join(_words(name))


def _published_values(bundle: Bundle) -> dict[str, set[str]]:
    """The values that given slices have, by the full names of attributes."""
    values: dict[str, set[str]] = {}
    for resource_slice in bundle.slices or ():
        for device in resource_slice.spec.devices or ():
            for key, attribute in device.attributes.items():
                if attribute.string:
                    values.setdefault("/".join(qualified(key, resource_slice.spec.driver)), set()).add(attribute.string)
    return values


RULE = Rule(
    code="V304",
    name="unknown-value",
    family="vocabulary",
    level="warning",
    summary="an attribute is compared with a value that no known device has",
    why=(
        "Values are compared to the letter: 'ampere' is not 'Ampere', and NVML calls an H100 'NVIDIA H100 80GB HBM3'. "
        "Such a comparison is simply false, so the pod stays pending without any error. Where an attribute may have "
        "values that nobody told us of (products), only what comes near a known one is told."
    ),
    bad=examples.template("ampere", selector='device.attributes["gpu.nvidia.com"].architecture == "ampere"'),
    good=examples.template("ampere", selector='device.attributes["gpu.nvidia.com"].architecture == "Ampere"'),
    find=_find,
    fixable="unsafe",
)
