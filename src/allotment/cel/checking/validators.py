"""Rules on literals that hold after type checking: formats of constant arguments, one type per list or map literal,
arguments of ``format``. They see only what is written as a literal; everything else is left to the run time."""

from __future__ import annotations

from collections.abc import Callable

from allotment.cel import regex
from allotment.cel.checking import types
from allotment.cel.checking.checked_expression import Checked
from allotment.cel.checking.format_clauses import Clause, FormatError, clauses
from allotment.cel.checking.types import Kind, Type
from allotment.cel.errors import Issues
from allotment.cel.evaluation import timestamps
from allotment.cel.evaluation.values import EvaluationError
from allotment.cel.syntax.ast import Call, Const, ListExpr, MapExpr, Node, children

_FIRST_SECOND = -62135596800
_LAST_SECOND = 253402300799


def validate(checked: Checked) -> None:
    """Raises CompileError with every finding."""
    issues = Issues(checked.parsed.source)
    # Whether a node lies inside a call of format goes down the tree with it.
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
            _one_type_in_list(node, checked, issues)
        elif kind is MapExpr and not formatted:
            assert isinstance(node, MapExpr)
            _one_type_in_map(node, checked, issues)
        stack.extend((child, formatted) for child in children(node))
    if issues:
        raise issues.error()


# Constant arguments.


def _valid_duration(value: object) -> bool:
    # Upstream evaluates the call without types, where the conversion from int does not exist.
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


def _constant_argument(valid: Callable[[object], bool]) -> Callable[[Call, Checked, Issues], None]:
    """A rule on the first argument, where it is a literal. (For the global ``matches`` that is the text, not the
    pattern; upstream looks there too.)"""

    def rule(node: Call, checked: Checked, issues: Issues) -> None:
        if node.args and isinstance(node.args[0], Const) and not valid(node.args[0].value):
            issues.report(node.args[0].pos, f"invalid {node.function} argument")

    return rule


# One type per literal.


def _value_type(node: Node, optional: bool, checked: Checked, issues: Issues) -> Type:
    t = checked.types[node.id]
    if not optional:
        return t
    if not t.params:
        # Upstream crashes here: an optional element of a type only known at run time.
        issues.report(node.pos, f"expected type 'optional_type({t.key})' but found '{t.key}'")
        return t
    return t.params[0]


def _same(first: Type, second: Type) -> bool:
    """Equality that does not tell a wrapper from the type that it wraps."""
    if first is second:
        return True
    return (
        first.kind is second.kind
        and first.name == second.name
        and len(first.params) == len(second.params)
        and all(_same(p, q) for p, q in zip(first.params, second.params, strict=True))
    )


def _mismatch(node: Node, wanted: Type, found: Type, issues: Issues) -> None:
    issues.report(node.pos, f"expected type '{wanted.key}' but found '{found.key}'")


def _one_type_in_list(node: ListExpr, checked: Checked, issues: Issues) -> None:
    """The first element sets the type; the first that differs is reported."""
    wanted: Type | None = None
    for i, element in enumerate(node.elements):
        found = _value_type(element, i in node.optional_indices, checked, issues)
        if wanted is None:
            wanted = found
        elif not _same(wanted, found):
            _mismatch(element, wanted, found, issues)
            return


def _one_type_in_map(node: MapExpr, checked: Checked, issues: Issues) -> None:
    """The first entry sets the types; every key and value that differs is reported."""
    wanted: tuple[Type, Type] | None = None
    for entry in node.entries:
        key = checked.types[entry.key.id]
        value = _value_type(entry.value, entry.optional, checked, issues)
        if wanted is None:
            wanted = (key, value)
            continue
        if not _same(wanted[0], key):
            _mismatch(entry.key, wanted[0], key, issues)
        if not _same(wanted[1], value):
            _mismatch(entry.value, wanted[1], value, issues)


# Formatting.

_NUMBERS = frozenset({Kind.INT, Kind.UINT})
_DOUBLES = frozenset({Kind.DOUBLE, Kind.STRING})
# fmt: off
_PRINTABLE = frozenset(
    {
        Kind.LIST, Kind.MAP, Kind.INT, Kind.UINT, Kind.DOUBLE, Kind.BOOL, Kind.STRING, Kind.TIMESTAMP, Kind.BYTES,
        Kind.DURATION, Kind.TYPE, Kind.NULL,
    }
)
# fmt: on
_PRINTABLE_ONLY = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps"
)
_HEX = (_NUMBERS | {Kind.STRING, Kind.BYTES}, "only integers, byte buffers, and strings can be formatted as hex")

#: Clause letter -> kinds that it takes, complaint about others.
_TAKES: dict[str, tuple[frozenset[Kind], str]] = {
    "s": (_PRINTABLE, _PRINTABLE_ONLY),
    "d": (_NUMBERS, "decimal clause can only be used on integers"),
    # Strings stand for "NaN", "Infinity" and "-Infinity".
    "f": (_DOUBLES, "fixed-point clause can only be used on doubles"),
    "e": (_DOUBLES, "scientific clause can only be used on doubles"),
    "b": (_NUMBERS | {Kind.BOOL}, "only integers and bools can be formatted as binary"),
    "x": _HEX,
    "X": _HEX,
    "o": (_NUMBERS, "octal clause can only be used on integers"),
}


def _format(node: Call, checked: Checked, issues: Issues) -> None:
    """A literal format string with a literal argument list: every clause against its argument's type."""
    text, args = node.target, node.args
    if not (isinstance(text, Const) and isinstance(text.value, str) and isinstance(args[0], ListExpr)):
        return
    elements = args[0].elements
    used = 0
    try:
        for piece in clauses(text.value, len(elements)):
            if isinstance(piece, Clause):
                used += 1
                kinds, complaint = _TAKES[piece.letter]
                culprit = _unfit(elements[piece.argument], kinds, piece.letter == "s", checked)
                if culprit is not None:
                    found = checked.types[culprit.id]
                    issues.report(culprit.pos, f"error during formatting: {complaint}, was given {found.name}")
                    return
    except FormatError as error:
        issues.report(node.pos, str(error))
        return
    if len(elements) > used:
        issues.report(node.pos, f"too many arguments supplied to string.format (expected {used}, got {len(elements)})")


def _unfit(node: Node, kinds: frozenset[Kind], deep: bool, checked: Checked) -> Node | None:
    """The node that a clause cannot print: the argument itself or, for ``%s``, something inside its literals."""
    t = checked.types[node.id]
    if t is not types.DYN and t.kind not in kinds:
        return node
    if deep and isinstance(node, ListExpr | MapExpr):
        for child in children(node):
            culprit = _unfit(child, kinds, deep, checked)
            if culprit is not None:
                return culprit
    return None


_CALL_RULES: dict[str, Callable[[Call, Checked, Issues], None]] = {
    "duration": _constant_argument(_valid_duration),
    "timestamp": _constant_argument(_valid_timestamp),
    "matches": _constant_argument(_valid_regex),
    "format": _format,
}
