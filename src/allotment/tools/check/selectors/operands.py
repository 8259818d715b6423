"""The kinds of operands in an expression, determined from the syntax, so that they are known even if compilation fails.

For the compiler an attribute may have any type; the driver's vocabulary is more specific.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, TypeAlias

from allotment.cel.ordering_operators import ORDERINGS
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Const, Node
from allotment.model.quantity import Quantity, QuantityError
from allotment.model.semver import Semver, SemverError
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import vocabulary_of
from allotment.tools.check.selectors.expressions import DeviceAccess, Expression, is_device_driver

_SIZE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgtp]?)(i?)(b|bytes?|o)?\s*", re.IGNORECASE)
#: Bare numbers up to this one are GiB; from 2**20 on they are bytes.
_MAX_GIB: Final = 4096


class QuantityGuess(NamedTuple):
    """A quantity, and whether no other one can be meant."""

    text: str
    is_certain: bool


def guess_quantity(written: str) -> QuantityGuess | None:
    """The quantity that a string stands for; None if it cannot be guessed.

    >>> guess_quantity("40Gi"), guess_quantity("40GiB"), guess_quantity("much")
    (QuantityGuess(text='40Gi', is_certain=True), QuantityGuess(text='40Gi', is_certain=True), None)
    >>> guess_quantity("40GB"), guess_quantity("80 gb")
    (QuantityGuess(text='40Gi', is_certain=False), QuantityGuess(text='80Gi', is_certain=False))
    """
    if is_quantity(written):
        return QuantityGuess(written, True)
    match = _SIZE.fullmatch(written)
    if match is None:
        return None
    number, prefix, binary, _ = match.groups()
    # A card's nominal GB are GiB: drivers publish 40Gi for a card of 40 GB.
    text = f"{number}{prefix.upper()}i" if prefix else number
    return QuantityGuess(text, bool(binary) or not prefix) if is_quantity(text) else None


def quantity_of_number(written: str, name: str) -> QuantityGuess | None:
    """The quantity that a bare number stands for as the value of a capacity.

    >>> quantity_of_number("40", "memory"), quantity_of_number("7", "shares")
    (QuantityGuess(text='40Gi', is_certain=False), QuantityGuess(text='7', is_certain=True))
    >>> quantity_of_number("42949672960", "memory")
    QuantityGuess(text='42949672960', is_certain=True)
    """
    if not is_quantity(written):
        return None
    if "memory" not in name.lower() or "slice" in name.lower():
        return QuantityGuess(written, True)
    number = float(written)
    if number >= 1 << 20:
        return QuantityGuess(written, True)
    return QuantityGuess(f"{written}{'Gi' if number <= _MAX_GIB else 'Mi'}", number == 0)


#: ``value``: an attribute of unknown type. Empty: anything else.
Operand: TypeAlias = Literal["quantity", "version", "string", "number", "bool", "value", ""]

#: Field names of typed values in slices, which are not part of a selector.
ACCESSORS: Final = frozenset({"string", "int", "bool", "version", "quantity", "value", "strings", "ints", "versions"})

#: The numbers of a version, which are methods: ``.major()``.
PARTS: Final = frozenset({"major", "minor", "patch"})

EQUALITIES: Final = {ast.EQUALS: "==", ast.NOT_EQUALS: "!="}
RELATIONS: Final = {**ORDERINGS, **EQUALITIES}
#: Methods that compare the receiver with the argument.
METHODS: Final = frozenset({"compareTo", "isGreaterThan", "isLessThan"})

_KINDS: Final[dict[str, Operand]] = {
    "string": "string", "int": "number", "uint": "number", "double": "number", "bool": "bool", "version": "version",
}  # fmt: skip


def operand_kind(bundle: Bundle, expr: Expression, node: Node) -> Operand:
    """The kind of a part of an expression."""
    access = next((candidate for candidate in expr.accesses if candidate.node.id == node.id), None)
    if access is not None:
        return _of_access(bundle, access)
    if isinstance(node, Const):
        return _KINDS.get(node.kind, "")
    if not isinstance(node, Call):
        return "string" if is_device_driver(node) else ""
    match node.function, node.target:
        case "quantity", None:
            return "quantity"
        case "semver", None:
            return "version"
        case (("add" | "sub"), target) if target is not None:
            return operand_kind(bundle, expr, target)
        case "orValue", target if target is not None and node.args:
            return operand_kind(bundle, expr, node.args[0])
        case ((ast.ADD | ast.SUBTRACT), None):
            return "quantity" if "quantity" in (operand_kind(bundle, expr, arg) for arg in node.args) else ""
    return ""


def _of_access(bundle: Bundle, access: DeviceAccess) -> Operand:
    if not access.name or access.is_optional or any(step.key in PARTS for step in access.steps[2:]):
        return ""
    vocab = vocabulary_of(bundle, access.domain)
    term = vocab.attribute(access.domain, access.name) if vocab is not None else None
    if term is not None and vocab is not None and vocab.capacity(access.domain, access.name) is None:
        return _KINDS[term.kind]  # even if it is read from the capacities
    return "quantity" if access.kind == "capacity" else "value"


def is_value_accessor(bundle: Bundle, access: DeviceAccess, number: int) -> bool:
    """Whether a step of an access is the type of a value in a slice, which is not part of a selector.

    ``number`` counts from the domain: 2 follows a name; 1 follows a domain, if that is actually a name.
    """
    step = access.steps[number]
    if step.key not in ACCESSORS or step.is_optional:
        return False
    return number >= 2 or (number == 1 and "." not in access.domain and vocabulary_of(bundle, access.domain) is None)


def normalized_version(text: str) -> str:
    """The semantic version of a version string: ``8.0.0`` for ``8.0`` or ``v8``; empty if it is not a version."""
    try:
        return str(Semver.parse(text.strip(), normalize=True))
    except SemverError:
        return ""


def is_quantity(text: str) -> bool:
    """Whether ``quantity("…")`` accepts a string."""
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True
