"""V304: a value that an attribute never has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from allotment.engine.diagnosis.letter_case import in_right_case
from allotment.engine.diagnosis.published_names import qualified, similar_names, similarity
from allotment.engine.diagnosis.value_distance import name_distance, named_memory, names_same
from allotment.phrases import either, listed, quoted
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import TYPO_SIMILARITY, vocabulary_of
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.check.selectors.edits import replace_extent
from allotment.tools.check.selectors.expressions import (
    DeviceAccess,
    Expression,
    LiteralComparison,
    LiteralValue,
    parsed_selectors,
)
from allotment.tools.check.selectors.text_tests import TextTest, text_tests
from allotment.tools.views import SelectorView
from allotment.vocabulary import Attribute

#: An attribute whose values V307 checks.
_PROFILE = "gpu.nvidia.com/profile"


class _ValueSuggestion(NamedTuple):
    """The value that was probably intended; with ``part``, a substring of several values."""

    value: str
    part: bool = False


class _KnownValues(NamedTuple):
    """The values of an attribute: those that the devices of the given cluster publish, and those of the vocabulary."""

    published: frozenset[str]
    listed: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        return self.published | self.listed


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for view, expr in parsed_selectors(bundle):
        for comparison in expr.comparisons:
            term = _text_attribute(bundle, comparison.access)
            if term is None or comparison.operator not in ("==", "!=", "in"):
                continue
            known = _known_values(bundle, term)
            for literal in comparison.literals if known.all else ():
                if isinstance(literal.value, str) and literal.value not in known.all:
                    yield from _check_value(view, expr, comparison, literal, term, known)
        for test in text_tests(expr):
            term = _text_attribute(bundle, test.access)
            values = _known_values(bundle, term).all if term is not None else ()
            if text := in_right_case(test.function, test.text, values):
                yield _of_case(view, test, text)


def _text_attribute(bundle: Bundle, access: DeviceAccess) -> Attribute | None:
    vocab = vocabulary_of(bundle, access.domain)
    term = vocab.attribute(access.domain, access.name) if vocab is not None else None
    is_text = access.kind == "attributes" and term is not None and term.kind == "string" and term.name != _PROFILE
    return term if is_text else None


def _known_values(bundle: Bundle, term: Attribute) -> _KnownValues:
    return _KnownValues(frozenset(bundle.cached(_published_values).get(term.name, ())), frozenset(term.values))


def _of_case(view: SelectorView, test: TextTest, text: str) -> RuleMatch:
    """A test that values would pass in another case."""
    message = f'no known device has a {test.access.name} that {test.verb} "{test.text}": upper and lower case differ'
    quote = "'" if view.expression[test.extent[1] - 1] == "'" else '"'
    written = view.expression[slice(*test.extent)]
    fix = None
    if written == f"{quote}{test.text}{quote}":
        edit = replace_extent(view, test.extent, f"{quote}{text}{quote}")
        fix = Fix(f'write "{text}"', ((view.document, edit),), safe=False)
    return RuleMatch(view.document, view.path, message, fix=fix, span=test.extent)


def _check_value(
    view: SelectorView,
    expr: Expression,
    comparison: LiteralComparison,
    literal: LiteralValue,
    term: Attribute,
    known: _KnownValues,
) -> Iterator[RuleMatch]:
    value = str(literal.value)
    is_product = term.name.endswith("/productName")
    suggestions = (
        _similar_products(value, known)
        if is_product
        else [_ValueSuggestion(candidate) for candidate in _similar_values(value, known.all, closed=term.closed)]
    )
    if not suggestions and not term.closed:
        return
    message = f'no known device has {comparison.access.name} "{value}"'
    if len(suggestions) == 1 and not suggestions[0].part:
        message += f': did you mean "{suggestions[0].value}"?'
    elif suggestions and suggestions[0].part:
        message += ": the published values that contain it are longer"
    elif suggestions and is_product:
        message += f": did you mean {either(quoted(suggestion.value) for suggestion in suggestions)}?"
    values = (
        sorted(candidate for candidate in known.all if value.lower() in candidate.lower())
        if suggestions and suggestions[0].part
        else sorted(known.all)
    )
    value_list = listed(map(quoted, values[:12]))
    yield RuleMatch(
        view.document,
        view.path,
        message,
        help=f"known values are {value_list}" + (f", and {len(values) - 12} more" if len(values) > 12 else ""),
        fix=_fix(view, expr, comparison, literal, suggestions, known),
        span=literal.extent,
    )


def _fix(
    view: SelectorView,
    expr: Expression,
    comparison: LiteralComparison,
    literal: LiteralValue,
    suggestions: list[_ValueSuggestion],
    known: _KnownValues,
) -> Fix | None:
    quote = "'" if view.expression[literal.extent[0]] == "'" else '"'
    if len(suggestions) > 1 and comparison.operator == "==" and named_memory(str(literal.value)):
        start, stop = comparison.access.extent
        products = ", ".join(f"{quote}{suggestion.value}{quote}" for suggestion in suggestions)
        edit = replace_extent(view, comparison.extent, f"{view.expression[start:stop]} in [{products}]")
        return Fix("compare with the products of this name and memory", ((view.document, edit),), safe=False)
    if len(suggestions) != 1:
        return None
    text = f"{quote}{suggestions[0].value}{quote}"
    if not suggestions[0].part:
        edit = replace_extent(view, literal.extent, text)
        return Fix(f"compare with {text}", ((view.document, edit),), safe=False)
    start, stop = comparison.access.extent
    if comparison.operator == "in":
        models = [_similar_products(str(product.value), known) for product in comparison.literals]
        if any(len(product) != 1 or not product[0].part for product in models):
            return None
        tests = " || ".join(
            f"{view.expression[start:stop]}.contains({quote}{product[0].value}{quote})" for product in models
        )
        is_whole_expression = comparison.extent == (0, len(view.expression))
        edit = replace_extent(view, comparison.extent, tests if is_whole_expression else f"({tests})")
        text = f"test whether {comparison.access.name} contains one of them"
        return Fix(text, ((view.document, edit),), safe=False)
    negation = "!" if comparison.operator == "!=" else ""
    edit = replace_extent(view, comparison.extent, f"{negation}{view.expression[start:stop]}.contains({text})")
    return Fix(f"test whether {comparison.access.name} contains {text}", ((view.document, edit),), safe=False)


def _similar_values(value: str, known: frozenset[str], *, closed: bool) -> list[str]:
    """The values that were probably intended. In open sets, a different number makes a different value, not a typo.

    >>> (
    ...     _similar_values("Amper", frozenset({"Ampere", "Hopper"}), closed=False),
    ...     _similar_values("0x2331", frozenset({"0x2330"}), closed=False),
    ... )
    (['Ampere'], [])
    """
    same_spelling = sorted(candidate for candidate in known if _normalized(candidate) == _normalized(value))
    if same_spelling or closed:
        return same_spelling or list(similar_names(value, known))
    if any(letter.isdigit() for letter in value):
        return []
    return [
        candidate
        for candidate in similar_names(value, known)
        if similarity(value, candidate) >= TYPO_SIMILARITY or set(_name_parts(value)) < set(_name_parts(candidate))
    ]


def _similar_products(value: str, known: _KnownValues) -> list[_ValueSuggestion]:
    """The products that were probably intended: those of the given cluster, if one of them has the written name.

    Strings that may be complete product names have no suggestions.

    >>> vocabulary = _KnownValues(frozenset(), frozenset({"NVIDIA H100 80GB HBM3", "Tesla T4", "NVIDIA L40S"}))
    >>> _similar_products("h100", vocabulary), _similar_products("NVIDIA L40", vocabulary)
    ([_ValueSuggestion(value='H100', part=True)], [])
    >>> fleet = _KnownValues(frozenset({"NVIDIA A100-SXM4-80GB"}), frozenset({"NVIDIA A100 80GB PCIe"}))
    >>> _similar_products("A100-80GB", fleet)
    [_ValueSuggestion(value='NVIDIA A100-SXM4-80GB', part=False)]
    """
    for products in (known.published, known.all):
        same = [product for product in products if names_same(value, product)]
        if same:
            break
    else:
        return []
    same.sort(key=lambda product: (name_distance(value, product), product))
    if name_distance(value, same[0]) == 0:
        return [_ValueSuggestion(product) for product in same if name_distance(value, product) == 0]
    for part in (value, value.upper()):
        if all(part in product for product in same):
            return [_ValueSuggestion(part, part=True)]
    return [_ValueSuggestion(product) for product in same] if len(same) == 1 or named_memory(value) else []


def _name_parts(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())


def _normalized(name: str) -> str:
    return "".join(_name_parts(name))


def _published_values(bundle: Bundle) -> dict[str, set[str]]:
    """The string values in the given slices, by the full names of attributes."""
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
        "String comparison is exact: 'ampere' is not 'Ampere', and NVML calls an H100 'NVIDIA H100 80GB HBM3'. Such "
        "a comparison is false, so the pod stays pending without an error. contains(), startsWith(), endsWith() and "
        "matches() distinguish upper and lower case, too. If not all values of an attribute are "
        "known, as for product names, only values that are similar to a known one are reported."
    ),
    bad=examples.template("ampere", selector='device.attributes["gpu.nvidia.com"].architecture == "ampere"'),
    good=examples.template("ampere", selector='device.attributes["gpu.nvidia.com"].architecture == "Ampere"'),
    find=_find,
    fixable="unsafe",
)
