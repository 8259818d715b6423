"""Converts selectors of key, operator and values to CEL expressions.

The operators are those of label selectors and affinities. Whether the key is an attribute or a capacity, its type, and
the unit of a size are assumptions, which the result states.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from allotment.cel.ordering_operators import method_ordering
from allotment.engine.diagnosis.published_names import similar_names
from allotment.model.quantity import Quantity, QuantityError
from allotment.model.semver import Semver, SemverError
from allotment.phrases import listed
from allotment.vocabulary import vocabulary

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Spellings of operators, with the canonical operator.
_OPERATORS: Final = {
    "": "in", "in": "in", "eq": "in", "equal": "in", "equals": "in", "=": "in", "==": "in",
    "notin": "notin", "ne": "notin", "notequal": "notin", "!=": "notin",
    "exists": "exists", "doesnotexist": "absent", "notexists": "absent",
    "gt": ">", "greaterthan": ">", ">": ">", "gte": ">=", "ge": ">=", "greaterthanorequalto": ">=", ">=": ">=",
    "lt": "<", "lessthan": "<", "<": "<", "lte": "<=", "le": "<=", "lessthanorequalto": "<=", "<=": "<=",
}  # fmt: skip
_METHODS: Final = {">": "isGreaterThan({})", "<": "isLessThan({})"}
#: Keys that are treated as capacities if the driver is unknown.
_SIZE_KEYS: Final = frozenset({"memory", "cores", "storage", "bandwidth"})


class CelConversion(NamedTuple):
    """An expression, and the assumptions behind it as a sentence fragment."""

    expression: str
    assumptions: str


def to_cel(key: str, operator: str, values: Sequence[str], driver: str) -> CelConversion | None:
    """The expression for a selector on devices of ``driver``; None if the selector cannot be converted."""
    comparison = _OPERATORS.get(operator.replace("_", "").lower())
    domain, slash, key_name = key.rpartition("/")
    domain = domain if slash else driver
    if comparison is None or not domain or not _IDENTIFIER.fullmatch(key_name):
        return None
    if comparison not in ("exists", "absent") and not values:
        return None
    if comparison not in ("in", "notin", "exists", "absent") and len(values) != 1:
        return None
    name, is_size = _resolve_name(domain, key_name)
    where = "capacity" if is_size else "attributes"
    if comparison in ("exists", "absent"):
        presence = f'"{name}" in device.{where}["{domain}"]'
        return CelConversion(
            presence if comparison == "exists" else f"!({presence})",
            f"{name} is assumed to be {'a capacity' if is_size else 'an attribute'} of {domain}",
        )
    subject = f'device.{where}["{domain}"].{name}'
    return (
        _capacity_condition(subject, comparison, values)
        if is_size
        else _attribute_condition(subject, comparison, values, domain, name)
    )


def _resolve_name(domain: str, name: str) -> tuple[str, bool]:
    """The driver's own name for a key, and whether it is a capacity."""
    vocab = vocabulary(domain)
    if vocab is None:
        return name, name.lower() in _SIZE_KEYS
    capacities = [term.name.removeprefix(f"{domain}/") for term in vocab.capacities]
    attributes = [term.name.removeprefix(f"{domain}/") for term in vocab.attributes]
    if name in capacities or name in attributes:
        return name, name in capacities
    nearest = similar_names(name, [*capacities, *attributes], 1)
    return (nearest[0], nearest[0] in capacities) if nearest else (name, name.lower() in _SIZE_KEYS)


# --- capacities ------------------------------------------------------------------------------------------------------


def _capacity_condition(subject: str, comparison: str, values: Sequence[str]) -> CelConversion | None:
    amounts = [_amount(value) for value in values]
    if not all(amounts):
        return None
    literals = [f'quantity("{amount}")' for amount in amounts]
    pairs = [(value.strip(), amount) for value, amount in zip(values, amounts, strict=True)]
    interpretations = [f"{value} is read as {amount}" for value, amount in pairs if value != amount]
    assumptions = (
        f"{listed(interpretations)} because no unit is given"
        if interpretations
        else f"{subject.rpartition('.')[2]} is a capacity"
    )
    if comparison in ("in", "notin"):
        equalities = [method_ordering(subject, "==", literal) for literal in literals]
        expression = " || ".join(equalities)
        return CelConversion(expression if comparison == "in" else f"!({expression})", assumptions)
    return CelConversion(_compare(subject, comparison, literals[0]), assumptions)


def _amount(value: str) -> str:
    """A size with its unit: a bare number is GiB if small, MiB if larger, bytes if huge. Empty if it is not a size."""
    text = value.strip()
    try:
        Quantity.parse(text)
    except QuantityError:
        return ""
    if not text.isdecimal():
        return text
    return f"{text}Gi" if int(text) < 1024 else f"{text}Mi" if int(text) < 10**7 else text


# --- attributes ------------------------------------------------------------------------------------------------------


def _attribute_condition(
    subject: str, comparison: str, values: Sequence[str], domain: str, name: str
) -> CelConversion | None:
    kind = _kind(domain, name, values)
    literals = [_literal(value, kind) for value in values]
    if not all(literals):
        return None
    assumptions = f"{name} is assumed to be an attribute of type {kind}"
    if comparison in ("in", "notin"):
        if len(literals) == 1:
            return CelConversion(f"{subject} {'==' if comparison == 'in' else '!='} {literals[0]}", assumptions)
        membership = f"{subject} in [{', '.join(literals)}]"
        return CelConversion(membership if comparison == "in" else f"!({membership})", assumptions)
    if kind == "version":
        return CelConversion(_compare(subject, comparison, literals[0]), assumptions)
    return CelConversion(f"{subject} {comparison} {literals[0]}", assumptions) if kind == "int" else None


def _kind(domain: str, name: str, values: Sequence[str]) -> str:
    vocab = vocabulary(domain)
    term = vocab.attribute(domain, name) if vocab else None
    if term is not None:
        return term.kind
    if all(value.strip().lstrip("-").isdecimal() for value in values):
        return "int"
    return "bool" if set(values) <= {"true", "false"} else "string"


def _literal(value: str, kind: str) -> str:
    text = value.strip()
    if kind == "int":
        return text if text.lstrip("-").isdecimal() else ""
    if kind == "bool":
        return text.lower() if text.lower() in ("true", "false") else ""
    if kind == "version":
        try:
            return f'semver("{Semver.parse(text, normalize=True)}")'
        except SemverError:
            return ""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _compare(subject: str, comparison: str, literal: str) -> str:
    method = _METHODS.get(comparison)
    return f"{subject}.{method.format(literal)}" if method else method_ordering(subject, comparison, literal)
