"""V312: an attribute compared with a literal of another type than its values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import vocabulary_of
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.check.selectors.edits import replace_extent
from allotment.tools.check.selectors.expressions import DeviceAccess, LiteralComparison, LiteralValue, parsed_selectors
from allotment.tools.views import SelectorView

#: The types of values and literals in messages.
_TYPE_NAMES: Final = {
    "string": "a string", "int": "an integer", "bool": "a bool", "version": "a version",
    "double": "a number",
}  # fmt: skip
_INT = re.compile(r"-?[0-9]{1,18}")


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for view, expr in parsed_selectors(bundle):
        for comparison in expr.comparisons:
            attribute_type = _attribute_type(bundle, comparison.access)
            if not attribute_type:
                continue
            for literal in comparison.literals:
                literal_type = _literal_type(literal, attribute_type)
                # C203 reports versions that are compared with strings or numbers.
                if (
                    literal_type
                    and literal_type != attribute_type
                    and (attribute_type != "version" or literal_type == "bool")
                ):
                    yield _report(view, comparison, literal, attribute_type, literal_type)


def _attribute_type(bundle: Bundle, access: DeviceAccess) -> str:
    """The type of an attribute's values, from the given slices or the driver's vocabulary; empty if unknown."""
    if access.kind != "attributes":
        return ""
    if bundle.published is not None:
        kinds = bundle.published.attributes.get(access.domain, {}).get(access.name, frozenset())
        if kinds:
            return next(iter(kinds)) if len(kinds) == 1 and kinds <= set(_TYPE_NAMES) else ""
    vocab = vocabulary_of(bundle, access.domain)
    term = vocab.attribute(access.domain, access.name) if vocab is not None else None
    return term.kind if term is not None else ""


def _literal_type(literal: LiteralValue, attribute_type: str) -> str:
    """The type of a literal; empty for literals that other rules check."""
    if isinstance(literal.value, bool):
        return "bool"
    if isinstance(literal.value, int):
        return "int"
    if isinstance(literal.value, float):
        # In CEL, 4 equals 4.0.
        return "int" if attribute_type == "int" and literal.value.is_integer() else "double"
    return "string" if isinstance(literal.value, str) else ""


def _report(
    view: SelectorView, comparison: LiteralComparison, literal: LiteralValue, attribute_type: str, literal_type: str
) -> RuleMatch:
    access = comparison.access
    source = view.expression[literal.extent[0] : literal.extent[1]]
    consequence = "they are never equal" if comparison.operator in ("==", "!=", "in") else "comparing them fails"
    return RuleMatch(
        view.document,
        view.path,
        f"{access.name} is {_TYPE_NAMES[attribute_type]}, but {source} is {_TYPE_NAMES[literal_type]}: {consequence}",
        fix=_fix(view, literal, attribute_type, source),
        span=literal.extent,
    )


def _fix(view: SelectorView, literal: LiteralValue, attribute_type: str, source: str) -> Fix | None:
    value = literal.value
    text = ""
    match attribute_type:
        case "int" if isinstance(value, str) and _INT.fullmatch(value.strip()):
            text = str(int(value))
        case "bool" if isinstance(value, str) and value.lower() in ("true", "false"):
            text = value.lower()
        case "string" if isinstance(value, bool | int | float):
            text = f'"{source}"'
    if not text:
        return None
    edit = replace_extent(view, literal.extent, text)
    return Fix(f"compare with {text}", ((view.document, edit),), safe=True)


RULE = Rule(
    code="V312",
    name="wrong-kind",
    family="vocabulary",
    level="warning",
    summary="an attribute is compared with a literal of a different type",
    why=(
        "An attribute has a type (string, version, int or bool), but the API server does not know it when it "
        "compiles an expression. In CEL, == between values of different types is false without an error, and "
        "ordering them fails at evaluation."
    ),
    bad=examples.template(
        "channel",
        class_name="compute-domain-default-channel.nvidia.com",
        request="channel",
        selector='device.attributes["compute-domain.nvidia.com"].id == "0"',
    ),
    good=examples.template(
        "channel",
        class_name="compute-domain-default-channel.nvidia.com",
        request="channel",
        selector='device.attributes["compute-domain.nvidia.com"].id == 0',
    ),
    find=_find,
    fixable="safe",
)
