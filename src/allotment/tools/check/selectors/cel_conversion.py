"""What an author meant by key, operator and values, as a CEL expression.

The operators are those of label selectors and affinities, which people know. What they leave open is guessed, and the
guess is said: whether the key is an attribute or a capacity, its type, and the unit of a size.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from allotment.cel.ordering_operators import by_method
from allotment.engine.diagnosis.published_names import near
from allotment.model.quantity import Quantity, QuantityError
from allotment.model.semver import Semver, SemverError
from allotment.tools.sentences import listed
from allotment.vocabulary import vocabulary

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Operators as people write them, by what they mean.
_OPERATORS: Final = {
    "": "in", "in": "in", "eq": "in", "equal": "in", "equals": "in", "=": "in", "==": "in",
    "notin": "notin", "ne": "notin", "notequal": "notin", "!=": "notin",
    "exists": "exists", "doesnotexist": "absent", "notexists": "absent",
    "gt": ">", "greaterthan": ">", ">": ">", "gte": ">=", "ge": ">=", "greaterthanorequalto": ">=", ">=": ">=",
    "lt": "<", "lessthan": "<", "<": "<", "lte": "<=", "le": "<=", "lessthanorequalto": "<=", "<=": "<=",
}  # fmt: skip
_METHODS: Final = {">": "isGreaterThan({})", "<": "isLessThan({})"}
#: Keys that name sizes where no driver is known to say so.
_SIZES: Final = frozenset({"memory", "cores", "storage", "bandwidth"})


class InCel(NamedTuple):
    """An expression, and in words what was taken for granted."""

    expression: str
    guessed: str


def in_cel(key: str, operator: str, values: Sequence[str], driver: str) -> InCel | None:
    """The expression for a selector on devices of ``driver``; None where it cannot be told."""
    meant = _OPERATORS.get(operator.replace("_", "").lower())
    domain, slash, bare = key.rpartition("/")
    domain = domain if slash else driver
    if meant is None or not domain or not _IDENTIFIER.fullmatch(bare):
        return None
    if meant not in ("exists", "absent") and not values:
        return None
    if meant not in ("in", "notin", "exists", "absent") and len(values) != 1:
        return None
    name, is_size = _named(domain, bare)
    where = "capacity" if is_size else "attributes"
    if meant in ("exists", "absent"):
        inside = f'"{name}" in device.{where}["{domain}"]'
        return InCel(
            inside if meant == "exists" else f"!({inside})", f"{name} is taken for one of the {where} of {domain}"
        )
    subject = f'device.{where}["{domain}"].{name}'
    return _size(subject, meant, values) if is_size else _attribute(subject, meant, values, domain, name)


def _named(domain: str, name: str) -> tuple[str, bool]:
    """The driver's own name for a key, and whether it is a capacity."""
    words = vocabulary(domain)
    if words is None:
        return name, name.lower() in _SIZES
    sizes = [term.name.removeprefix(f"{domain}/") for term in words.capacities]
    attributes = [term.name.removeprefix(f"{domain}/") for term in words.attributes]
    if name in sizes or name in attributes:
        return name, name in sizes
    best = near(name, [*sizes, *attributes], 1)
    return (best[0], best[0] in sizes) if best else (name, name.lower() in _SIZES)


# --- sizes -----------------------------------------------------------------------------------------------------------


def _size(subject: str, meant: str, values: Sequence[str]) -> InCel | None:
    amounts = [_amount(value) for value in values]
    if not all(amounts):
        return None
    literals = [f'quantity("{amount}")' for amount in amounts]
    pairs = [(value.strip(), amount) for value, amount in zip(values, amounts, strict=True)]
    read = [f"{value} is read as {amount}" for value, amount in pairs if value != amount]
    guessed = f"{listed(read)}, since no unit is written" if read else f"{subject.rpartition('.')[2]} is a capacity"
    if meant in ("in", "notin"):
        alike = [by_method(subject, "==", literal) for literal in literals]
        expression = " || ".join(alike)
        return InCel(expression if meant == "in" else f"!({expression})", guessed)
    return InCel(_compared(subject, meant, literals[0]), guessed)


def _amount(value: str) -> str:
    """A size with its unit; a bare number is GiB when small, MiB when larger, bytes when huge. Empty for no size."""
    plain = value.strip()
    try:
        Quantity.parse(plain)
    except QuantityError:
        return ""
    if not plain.isdecimal():
        return plain
    return f"{plain}Gi" if int(plain) < 1024 else f"{plain}Mi" if int(plain) < 10**7 else plain


# --- attributes ------------------------------------------------------------------------------------------------------


def _attribute(subject: str, meant: str, values: Sequence[str], domain: str, name: str) -> InCel | None:
    kind = _kind(domain, name, values)
    literals = [_literal(value, kind) for value in values]
    if not all(literals):
        return None
    guessed = f"{name} is taken for an attribute of type {kind}"
    if meant in ("in", "notin"):
        if len(literals) == 1:
            return InCel(f"{subject} {'==' if meant == 'in' else '!='} {literals[0]}", guessed)
        inside = f"{subject} in [{', '.join(literals)}]"
        return InCel(inside if meant == "in" else f"!({inside})", guessed)
    if kind == "version":
        return InCel(_compared(subject, meant, literals[0]), guessed)
    return InCel(f"{subject} {meant} {literals[0]}", guessed) if kind == "int" else None


def _kind(domain: str, name: str, values: Sequence[str]) -> str:
    words = vocabulary(domain)
    term = words.attribute(domain, name) if words else None
    if term is not None:
        return term.kind
    if all(value.strip().lstrip("-").isdecimal() for value in values):
        return "int"
    return "bool" if set(values) <= {"true", "false"} else "string"


def _literal(value: str, kind: str) -> str:
    plain = value.strip()
    if kind == "int":
        return plain if plain.lstrip("-").isdecimal() else ""
    if kind == "bool":
        return plain.lower() if plain.lower() in ("true", "false") else ""
    if kind == "version":
        try:
            return f'semver("{Semver.parse(plain, normalize=True)}")'
        except SemverError:
            return ""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _compared(subject: str, meant: str, literal: str) -> str:
    method = _METHODS.get(meant)
    return f"{subject}.{method.format(literal)}" if method else by_method(subject, meant, literal)
