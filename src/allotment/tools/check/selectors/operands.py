"""The kinds of operands in an expression, determined from the syntax, so that they are known even if compilation fails.

For the compiler an attribute may have any type; the driver's vocabulary is more specific.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Const, Node
from allotment.model.semver import Semver, SemverError
from allotment.model.written_amounts import ACCESSORS
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import vocabulary_of
from allotment.tools.check.selectors.expressions import DeviceAccess, Expression, is_device_driver

#: ``value``: an attribute of unknown type. Empty: anything else.
Operand: TypeAlias = Literal["quantity", "version", "string", "number", "bool", "value", ""]

#: The numbers of a version, which are methods: ``.major()``.
PARTS: Final = frozenset({"major", "minor", "patch"})

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
