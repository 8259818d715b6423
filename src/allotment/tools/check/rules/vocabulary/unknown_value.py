"""V304: a value that an attribute never has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from allotment.engine.diagnosis.published_names import qualified, similar_names, similarity
from allotment.phrases import listed, quoted
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import TYPO_SIMILARITY, vocabulary_of
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.check.selectors.edits import replace_extent
from allotment.tools.check.selectors.expressions import Expression, LiteralComparison, LiteralValue, parsed_selectors
from allotment.tools.views import SelectorView
from allotment.vocabulary import Attribute

#: An attribute whose values V307 checks.
_PROFILE = "gpu.nvidia.com/profile"


class _ValueSuggestion(NamedTuple):
    """The value that was probably intended; with ``part``, a substring of several values."""

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
    view: SelectorView,
    expr: Expression,
    comparison: LiteralComparison,
    literal: LiteralValue,
    term: Attribute,
    known: set[str],
) -> Iterator[RuleMatch]:
    value = str(literal.value)
    is_product = term.name.endswith("/productName")
    suggestions = (
        _similar_products(value, known)
        if is_product
        else [_ValueSuggestion(candidate) for candidate in _similar_values(value, known, closed=term.closed)]
    )
    if not suggestions and not term.closed:
        return
    message = f'no known device has {comparison.access.name} "{value}"'
    if len(suggestions) == 1 and not suggestions[0].part:
        message += f': did you mean "{suggestions[0].value}"?'
    elif suggestions:
        message += ": the published values that contain it are longer" if suggestions[0].part else ""
    values = (
        sorted(candidate for candidate in known if value.lower() in candidate.lower())
        if suggestions and suggestions[0].part
        else sorted(known)
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
    known: set[str],
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


def _similar_values(value: str, known: set[str], *, closed: bool) -> list[str]:
    """The values that were probably intended. In open sets, a different number makes a different value, not a typo.

    >>> (
    ...     _similar_values("Amper", {"Ampere", "Hopper"}, closed=False),
    ...     _similar_values("0x2331", {"0x2330"}, closed=False),
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


def _similar_products(value: str, known: Iterable[str]) -> list[_ValueSuggestion]:
    """The product that was probably intended. Strings that may be complete product names have no suggestions.

    >>> (
    ...     _similar_products("h100", ["NVIDIA H100 80GB HBM3", "Tesla T4"]),
    ...     _similar_products("NVIDIA L40", ["NVIDIA L40S"]),
    ... )
    ([_ValueSuggestion(value='H100', part=True)], [])
    """
    normalized = _normalized(value)
    if not normalized:
        return []
    same_spelling = [candidate for candidate in known if _normalized(candidate) == normalized]
    if same_spelling:
        return [_ValueSuggestion(candidate) for candidate in sorted(same_spelling)]
    containing = [
        candidate for candidate in sorted(known) if _contains_sequence(_name_parts(candidate), _name_parts(value))
    ]
    if not containing:
        return []
    if value in containing[0] or value.upper() in containing[0]:
        return [_ValueSuggestion(value if value in containing[0] else value.upper(), part=True)]
    return [_ValueSuggestion(candidate) for candidate in containing] if len(containing) == 1 else []


def _contains_sequence(sequence: list[str], subsequence: list[str]) -> bool:
    """Whether a list contains another one as a contiguous sequence."""
    return any(sequence[n : n + len(subsequence)] == subsequence for n in range(len(sequence) - len(subsequence) + 1))


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
        "a comparison is false, so the pod stays pending without an error. If not all values of an attribute are "
        "known, as for product names, only values that are similar to a known one are reported."
    ),
    bad=examples.template("ampere", selector='device.attributes["gpu.nvidia.com"].architecture == "ampere"'),
    good=examples.template("ampere", selector='device.attributes["gpu.nvidia.com"].architecture == "Ampere"'),
    find=_find,
    fixable="unsafe",
)
