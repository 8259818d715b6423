"""What the operands of an expression are, told from how they are written: also where the compiler gives up.

The compiler knows an attribute as something of any type; a driver's vocabulary knows more.
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
from allotment.tools.check.names.known_names import words_of
from allotment.tools.check.selectors.expressions import Access, Expression, is_driver

_WRITTEN: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgtp]?)(i?)(b|bytes?|o)?\s*", re.IGNORECASE)
#: A bare number up to here is a number of GiB; from 2**20 on it is one of bytes.
_MOST_GIB: Final = 4096


class Amount(NamedTuple):
    """A quantity, and whether it can be nothing else that was meant."""

    text: str
    certain: bool


def amount(written: str) -> Amount | None:
    """The quantity that a text means; None for none that could be guessed.

    >>> amount("40Gi"), amount("40GiB"), amount("40GB"), amount("80 gb"), amount("much")
    (Amount(text='40Gi', certain=True), Amount(text='40Gi', certain=True), Amount(text='40Gi', certain=False), \
Amount(text='80Gi', certain=False), None)
    """
    if is_quantity(written):
        return Amount(written, True)
    found = _WRITTEN.fullmatch(written)
    if found is None:
        return None
    number, prefix, binary, _ = found.groups()
    # GB on a card's box are GiB in its memory: drivers publish 40Gi of a card of 40 GB.
    text = f"{number}{prefix.upper()}i" if prefix else number
    return Amount(text, bool(binary) or not prefix) if is_quantity(text) else None


def amount_of_number(written: str, name: str) -> Amount | None:
    """The quantity that a bare number means as the value of a capacity.

    >>> amount_of_number("40", "memory"), amount_of_number("42949672960", "memory"), amount_of_number("7", "shares")
    (Amount(text='40Gi', certain=False), Amount(text='42949672960', certain=True), Amount(text='7', certain=True))
    """
    if not is_quantity(written):
        return None
    if "memory" not in name.lower() or "slice" in name.lower():
        return Amount(written, True)
    number = float(written)
    if number >= 1 << 20:
        return Amount(written, True)
    return Amount(f"{written}{'Gi' if number <= _MOST_GIB else 'Mi'}", number == 0)


#: ``value``: an attribute of which nobody knows what it is. Empty: something else.
Operand: TypeAlias = Literal["quantity", "version", "text", "number", "bool", "value", ""]

#: What stands in slices beside the value and is no part of a selector.
ACCESSORS: Final = frozenset({"string", "int", "bool", "version", "quantity", "value", "strings", "ints", "versions"})

#: The numbers of a version, which are functions: ``.major()``.
PARTS: Final = frozenset({"major", "minor", "patch"})

EQUALITIES: Final = {ast.EQUALS: "==", ast.NOT_EQUALS: "!="}
RELATIONS: Final = {**ORDERINGS, **EQUALITIES}
#: Methods that compare what they are called on with their argument.
METHODS: Final = frozenset({"compareTo", "isGreaterThan", "isLessThan"})

_KINDS: Final[dict[str, Operand]] = {
    "string": "text", "int": "number", "uint": "number", "double": "number", "bool": "bool", "version": "version",
}  # fmt: skip


def operand(bundle: Bundle, read: Expression, node: Node) -> Operand:
    """What a part of an expression is."""
    access = next((one for one in read.accesses if one.node.id == node.id), None)
    if access is not None:
        return _of_access(bundle, access)
    if isinstance(node, Const):
        return _KINDS.get(node.kind, "")
    if not isinstance(node, Call):
        return "text" if is_driver(node) else ""
    match node.function, node.target:
        case "quantity", None:
            return "quantity"
        case "semver", None:
            return "version"
        case (("add" | "sub"), target) if target is not None:
            return operand(bundle, read, target)
        case "orValue", target if target is not None and node.args:
            return operand(bundle, read, node.args[0])
        case ((ast.ADD | ast.SUBTRACT), None):
            return "quantity" if "quantity" in (operand(bundle, read, one) for one in node.args) else ""
    return ""


def _of_access(bundle: Bundle, access: Access) -> Operand:
    if not access.name or access.tolerant or any(step.key in PARTS for step in access.steps[2:]):
        return ""
    words = words_of(bundle, access.domain)
    term = words.attribute(access.domain, access.name) if words is not None else None
    if term is not None and words is not None and words.capacity(access.domain, access.name) is None:
        return _KINDS[term.kind]  # also where it is looked up among the capacities
    return "quantity" if access.kind == "capacity" else "value"


def is_accessor(bundle: Bundle, access: Access, number: int) -> bool:
    """Whether a step of an access is the type that a value has in a slice, taken for a part of the selector.

    ``number`` counts from the domain: 2 follows a name; 1 follows a domain, if that is none but a name.
    """
    step = access.steps[number]
    if step.key not in ACCESSORS or step.tolerant:
        return False
    return number >= 2 or (number == 1 and "." not in access.domain and words_of(bundle, access.domain) is None)


def version_text(text: str) -> str:
    """The semantic version that people mean: ``8.0.0`` for ``8.0`` or ``v8``; empty for none."""
    try:
        return str(Semver.parse(text.strip(), normalize=True))
    except SemverError:
        return ""


def is_quantity(text: str) -> bool:
    """Whether ``quantity("…")`` takes a text."""
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True
