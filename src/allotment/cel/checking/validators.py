"""Validation of literals after type checking: constant arguments, element types of lists and maps, format strings.

Only literals are validated; other values are checked at run time.
"""

from __future__ import annotations

from collections.abc import Callable

from allotment.cel import regex
from allotment.cel.checking import types
from allotment.cel.checking.checked_expression import CheckedExpression
from allotment.cel.checking.format_clauses import Clause, FormatError, clauses
from allotment.cel.checking.types import Type, TypeKind
from allotment.cel.errors import Issues
from allotment.cel.evaluation import timestamps
from allotment.cel.evaluation.values import EvaluationError
from allotment.cel.syntax.ast import Call, Const, ListExpr, MapExpr, Node, children

_FIRST_SECOND = -62135596800
_LAST_SECOND = 253402300799


def validate(checked: CheckedExpression) -> None:
    """Raises CompileError with all errors."""
    issues = Issues(checked.parsed.source)
    # Nodes, and whether they are inside a call of format.
    stack: list[tuple[Node, bool]] = [(checked.expr, False)]
    while stack:
        node, formatted = stack.pop()
        kind = node.__class__
        if kind is Call:
            assert isinstance(node, Call)
            rule = _CALL_RULES.get(node.function)
            if rule is not None:
                rule(node, checked, issues)
            formatted = formatted or node.function == "format"
        elif kind is ListExpr and not formatted:
            assert isinstance(node, ListExpr)
            _check_list_types(node, checked, issues)
        elif kind is MapExpr and not formatted:
            assert isinstance(node, MapExpr)
            _check_map_types(node, checked, issues)
        stack.extend((child, formatted) for child in children(node))
    if issues:
        raise issues.error()


# Constant arguments.


def _valid_duration(value: object) -> bool:
    # Upstream evaluates the call without types, and then has no conversion from int.
    try:
        return isinstance(value, str) and timestamps.parse_duration(value) is not None
    except EvaluationError:
        return False


def _valid_timestamp(value: object) -> bool:
    if isinstance(value, str):
        try:
            return timestamps.parse_timestamp(value) is not None
        except EvaluationError:
            return False
    return isinstance(value, int) and _FIRST_SECOND <= value <= _LAST_SECOND


def _valid_regex(value: object) -> bool:
    try:
        regex.compile(str(value))
    except regex.RegexError:
        return False
    return True


def _constant_argument(valid: Callable[[object], bool]) -> Callable[[Call, CheckedExpression, Issues], None]:
    """A rule for the first argument if it is a literal. As upstream, it checks the text, not the pattern, of the global
    ``matches``."""

    def rule(node: Call, checked: CheckedExpression, issues: Issues) -> None:
        if node.args and isinstance(node.args[0], Const) and not valid(node.args[0].value):
            issues.report(node.args[0].pos, f"invalid {node.function} argument")

    return rule


# Element types of lists and maps.


def _value_type(node: Node, optional: bool, checked: CheckedExpression, issues: Issues) -> Type:
    t = checked.types[node.id]
    if not optional:
        return t
    if not t.params:
        # Upstream crashes on an optional element whose type is only known at run time.
        issues.report(node.pos, f"expected type 'optional_type({t.display_name})' but found '{t.display_name}'")
        return t
    return t.params[0]


def _same(first: Type, second: Type) -> bool:
    """Equality that ignores the difference between a wrapper type and its content type."""
    if first is second:
        return True
    return (
        first.kind is second.kind
        and first.name == second.name
        and len(first.params) == len(second.params)
        and all(_same(p, q) for p, q in zip(first.params, second.params, strict=True))
    )


def _report_mismatch(node: Node, expected: Type, found: Type, issues: Issues) -> None:
    issues.report(node.pos, f"expected type '{expected.display_name}' but found '{found.display_name}'")


def _check_list_types(node: ListExpr, checked: CheckedExpression, issues: Issues) -> None:
    """Reports the first element whose type differs from that of the first one."""
    expected: Type | None = None
    for i, element in enumerate(node.elements):
        found = _value_type(element, i in node.optional_indices, checked, issues)
        if expected is None:
            expected = found
        elif not _same(expected, found):
            _report_mismatch(element, expected, found, issues)
            return


def _check_map_types(node: MapExpr, checked: CheckedExpression, issues: Issues) -> None:
    """Reports every key and value whose type differs from that of the first entry."""
    expected: tuple[Type, Type] | None = None
    for entry in node.entries:
        key = checked.types[entry.key.id]
        value = _value_type(entry.value, entry.optional, checked, issues)
        if expected is None:
            expected = (key, value)
            continue
        if not _same(expected[0], key):
            _report_mismatch(entry.key, expected[0], key, issues)
        if not _same(expected[1], value):
            _report_mismatch(entry.value, expected[1], value, issues)


# Formatting.

_NUMBERS = frozenset({TypeKind.INT, TypeKind.UINT})
_DOUBLES = frozenset({TypeKind.DOUBLE, TypeKind.STRING})
# fmt: off
_PRINTABLE = frozenset(
    {
        TypeKind.LIST, TypeKind.MAP, TypeKind.INT, TypeKind.UINT, TypeKind.DOUBLE, TypeKind.BOOL, TypeKind.STRING,
        TypeKind.TIMESTAMP, TypeKind.BYTES, TypeKind.DURATION, TypeKind.TYPE, TypeKind.NULL,
    }
)
# fmt: on
_NOT_PRINTABLE = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps"
)
_HEX = (
    _NUMBERS | {TypeKind.STRING, TypeKind.BYTES},
    "only integers, byte buffers, and strings can be formatted as hex",
)

#: Clause letter -> accepted kinds, error message for others.
_CLAUSE_KINDS: dict[str, tuple[frozenset[TypeKind], str]] = {
    "s": (_PRINTABLE, _NOT_PRINTABLE),
    "d": (_NUMBERS, "decimal clause can only be used on integers"),
    # Strings are accepted for "NaN", "Infinity" and "-Infinity".
    "f": (_DOUBLES, "fixed-point clause can only be used on doubles"),
    "e": (_DOUBLES, "scientific clause can only be used on doubles"),
    "b": (_NUMBERS | {TypeKind.BOOL}, "only integers and bools can be formatted as binary"),
    "x": _HEX,
    "X": _HEX,
    "o": (_NUMBERS, "octal clause can only be used on integers"),
}


def _format(node: Call, checked: CheckedExpression, issues: Issues) -> None:
    """Checks the clauses of a literal format string against the types of a literal argument list."""
    text, args = node.target, node.args
    if not (isinstance(text, Const) and isinstance(text.value, str) and isinstance(args[0], ListExpr)):
        return
    elements = args[0].elements
    used = 0
    try:
        for piece in clauses(text.value, len(elements)):
            if isinstance(piece, Clause):
                used += 1
                kinds, message = _CLAUSE_KINDS[piece.letter]
                unprintable = _unprintable(elements[piece.argument], kinds, piece.letter == "s", checked)
                if unprintable is not None:
                    found = checked.types[unprintable.id]
                    issues.report(unprintable.pos, f"error during formatting: {message}, was given {found.name}")
                    return
    except FormatError as error:
        issues.report(node.pos, str(error))
        return
    if len(elements) > used:
        issues.report(node.pos, f"too many arguments supplied to string.format (expected {used}, got {len(elements)})")


def _unprintable(node: Node, kinds: frozenset[TypeKind], deep: bool, checked: CheckedExpression) -> Node | None:
    """The node that a clause cannot format: the argument or, for ``%s``, a part of a list or map literal; else None."""
    t = checked.types[node.id]
    if t is not types.DYN and t.kind not in kinds:
        return node
    if deep and isinstance(node, ListExpr | MapExpr):
        for child in children(node):
            unprintable = _unprintable(child, kinds, deep, checked)
            if unprintable is not None:
                return unprintable
    return None


_CALL_RULES: dict[str, Callable[[Call, CheckedExpression, Issues], None]] = {
    "duration": _constant_argument(_valid_duration),
    "timestamp": _constant_argument(_valid_timestamp),
    "matches": _constant_argument(_valid_regex),
    "format": _format,
}
