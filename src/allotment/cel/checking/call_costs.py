"""Cost estimates of calls, by function and overload.

A rule computes from the sizes of the operands a cost and, if the result has a size, that size; None leaves the call to
the next rule. The API server rejects a selector whose estimate is too high, so upstream's oddities are reproduced:
``startsWith`` is charged by its argument instead of its text, strings in ``join`` have no bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from allotment.cel.checking import ranges, types
from allotment.cel.checking.declared_sizes import DeclaredType
from allotment.cel.checking.ranges import MAX, ONE, UNKNOWN, Range
from allotment.cel.checking.types import Type, TypeKind
from allotment.cel.syntax.ast import Const, Node

TRAVERSAL = 0.1
REGEX = 0.25
LIST = 10
MAP = 30
MESSAGE = 40

_MAX_ATTRIBUTE_VALUES = 48
_MAX_FORMAT_NAME_LENGTH = 64
_MAX_FORMAT_REGEX_LENGTH = 128
_AUTHORIZATION_CHECK = 350_000


class Operand(NamedTuple):
    """One operand of a call: its node and type, its size if known, and its declared type if it is part of a
    device."""

    node: Node
    type: Type
    known_size: Range | None
    declared: DeclaredType | None

    @property
    def size(self) -> Range:
        """The size, or an unbounded range."""
        return UNKNOWN if self.known_size is None else self.known_size


class CallCost(NamedTuple):
    """The cost of a call without its operands, and the size of its result."""

    cost: Range
    result_size: Range | None = None


CostRule: TypeAlias = Callable[[str, Operand | None, list[Operand]], CallCost | None]


def _constant(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    return CallCost(ONE)


def _traverse_target(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    return None if target is None else CallCost(ranges.scale(target.size, TRAVERSAL), target.size)


def _traverse_argument(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    return CallCost(ranges.scale(args[0].size, TRAVERSAL)) if args else None


def _url(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    return CallCost(ranges.scale(args[0].size, TRAVERSAL), args[0].size) if len(args) == 1 else None


def _ip(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    return CallCost(ONE) if overload == "cidr_ip" else _traverse_argument(overload, target, args)


def _twice_argument(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    return CallCost(ranges.scale(args[0].size, 2 * TRAVERSAL)) if args else None


def _authorization_check(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    return CallCost(ranges.fixed(_AUTHORIZATION_CHECK))


def _requirement_selector(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    """Field and label selectors: the shortest requirement is ``k,``."""
    if len(args) != 1:
        return None
    size = args[0].size
    requirements = ranges.scale(ranges.scale(size, 0.5), float(LIST + MESSAGE))
    return CallCost(ranges.add(ranges.add(ranges.fixed(LIST), ranges.scale(size, TRAVERSAL)), requirements))


def _element(operand: Operand) -> tuple[Type, Range] | None:
    """Type and size of the elements of a list; None for types without parameters (string, dyn)."""
    if not operand.type.params:
        return None
    element = None if operand.declared is None else operand.declared.element
    return operand.type.params[0], UNKNOWN if element is None else (0, element.max_size)


def _each_element(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    """``isSorted sum max min indexOf lastIndexOf``: one per element, more for strings and bytes."""
    if target is None:
        return None
    element = _element(target)
    if element is None:
        return CallCost(ranges.scale(target.size, TRAVERSAL))
    cost = ONE
    if element[0].kind in (TypeKind.STRING, TypeKind.BYTES):
        cost = ranges.add(cost, ranges.scale(element[1], TRAVERSAL))
    return CallCost(ranges.multiply(target.size, cost))


def _replace(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    if target is None or len(args) < 2:
        return None
    text, old, new = target.size, args[0].size, args[1].size
    # Longest result: an empty pattern matches at every position; otherwise the shortest one matches most often.
    if old[0] == 0:
        most, kept_most = min(text[1] + 1, MAX), text[1]
    elif new[1] <= old[0]:
        most, kept_most = 0, text[1]
    else:
        most, kept_most = ranges.ceil_div(text[1], old[0]), 0
    if old[1] == 0:
        least, kept_least = min(text[0] + 1, MAX), text[0]
    elif old[1] <= new[0]:
        least, kept_least = 0, text[0]
    else:
        least, kept_least = ranges.ceil_div(text[0], old[1]), 0
    result = ranges.add(ranges.multiply((least, most), new), (kept_least, kept_most))
    return CallCost(ranges.scale(text, 2 * TRAVERSAL), result)


def _split(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    if target is None:
        return None
    max_parts = target.size[1]
    if len(args) > 1 and isinstance(args[1].node, Const) and args[1].node.kind == "int":
        max_parts = ranges.wrap(_int(args[1].node))
    return CallCost(ranges.scale(target.size, 2 * TRAVERSAL), (0, max_parts))


def _join(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    if target is None:
        return None
    size = ranges.ZERO
    count = target.size
    element = _element(target)
    if element is not None:
        size = ranges.multiply(count, element[1])
    if args:
        separators = (max(count[0] - 1, 0), max(count[1] - 1, 0))
        size = ranges.add(size, ranges.multiply(args[0].size, separators))
    return CallCost(ranges.scale(size, TRAVERSAL), size)


def _regex(text: Operand, pattern: Operand) -> Range:
    """Text length plus one, so that the pattern is charged for an empty text too, times pattern length."""
    return ranges.multiply(ranges.scale(ranges.add(text.size, ONE), TRAVERSAL), ranges.scale(pattern.size, REGEX))


def _find(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    if target is None or not args:
        return None
    return CallCost(_regex(target, args[0]), (0, target.size[1]))


def _contains_address(cidr: bool) -> CostRule:
    """``containsIP`` and ``containsCIDR`` compare two addresses of 4 to 16 bytes. A string is parsed first; a network
    is also masked and its prefix length compared."""
    address: Range = (4, 16)

    def rule(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
        if not args:
            return None
        cost = ranges.scale(ranges.add(address, address), TRAVERSAL)
        if cidr:
            cost = ranges.add(ranges.add(cost, ranges.scale(address, TRAVERSAL)), ONE)
        if overload.endswith("_string"):
            cost = ranges.add(cost, ranges.scale(args[0].size, TRAVERSAL))
        return CallCost(cost)

    return rule


def _validate(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    if not args:
        return None
    return CallCost(ranges.scale(ranges.scale(args[0].size, TRAVERSAL), _MAX_FORMAT_REGEX_LENGTH * REGEX))


def _equals(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    """Values of Kubernetes types compare in constant time."""
    t = args[0].type
    if t.name != args[1].type.name:
        return None
    if t in (types.IP, types.CIDR, types.QUANTITY, types.SEMVER) or t.name.startswith("kubernetes.authorization."):
        return CallCost(ONE)
    if t is types.FORMAT:
        return CallCost(ranges.scale((1, _MAX_FORMAT_NAME_LENGTH), TRAVERSAL))
    if t is types.URL:
        computed = args[1].known_size
        return CallCost(ranges.scale((1, 1 if computed is None else computed[1]), TRAVERSAL))
    return None


def _includes(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    """``includes`` on attributes, whose number of values is limited, or, from 1.37 on, on any list."""
    if target is None:
        return None
    if overload == "dra_includes_dyn_dyn":
        return CallCost((0, _MAX_ATTRIBUTE_VALUES))
    return CallCost(target.size) if _element(target) is None else _each_element(overload, target, args)


def _starts_with(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    return CallCost(ranges.scale(args[0].size, TRAVERSAL))


def _format(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    return None if target is None else CallCost(ranges.scale(target.size, TRAVERSAL))


def _string_to_bytes(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    size = args[0].size
    return CallCost(ranges.scale(size, TRAVERSAL), (size[0], ranges.wrap(size[1] * 4)))


def _bytes_to_string(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    size = args[0].size
    return CallCost(ranges.scale(size, TRAVERSAL), (size[0] // 4, size[1]))


def _quote(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    size = args[0].size
    return CallCost(ranges.scale(size, TRAVERSAL), (ranges.wrap(size[0] + 2), ranges.wrap(size[1] * 2 + 2)))


def _in_list(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    return CallCost(ranges.scale(args[1].size, 1.0))


def _matches(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    return None if target is None else CallCost(_regex(target, args[0]))


def _global_matches(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    return CallCost(_regex(args[0], args[1]))


def _contains(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    if target is None:
        return None
    return CallCost(ranges.multiply(ranges.scale(target.size, TRAVERSAL), ranges.scale(args[0].size, TRAVERSAL)))


def _compare(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    """A comparison ends with the shorter operand."""
    most = min(args[0].size[1], args[1].size[1])
    return CallCost(ranges.scale((min(most, 1), most), TRAVERSAL))


def _allocate(size: Range, factor: float) -> CallCost:
    """A call that creates a list: the call, the list, and a factor per element."""
    return CallCost(ranges.add(ranges.add(ranges.scale(size, factor), ONE), ranges.fixed(LIST)), size)


def _int(node: Const) -> int:
    assert isinstance(node.value, int)
    return node.value


def _literal(operand: Operand, otherwise: int) -> int:
    """The value of an int literal, at least 0; ``otherwise`` for other nodes."""
    node = operand.node
    return max(_int(node), 0) if isinstance(node, Const) and node.kind == "int" else otherwise


def _slice(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    assert target is not None
    length = _literal(args[1], target.size[1]) - _literal(args[0], 0)
    return _allocate(ranges.fixed(ranges.wrap(length)), 1.0)


def _range(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    return _allocate(ranges.fixed(_literal(args[0], MAX)), 1.0)


def _reverse(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    assert target is not None
    return _allocate(target.size, 1.0)


def _flatten(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
    assert target is not None
    return _allocate(target.size, float(_literal(args[0], MAX)) if args else 1.0)


def _compare_all(factor: float, by_key: bool = False) -> CostRule:
    """``distinct``, ``sort`` and ``sortBy`` are charged for comparing every pair of elements."""

    def rule(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
        over = args[0] if by_key else target
        assert over is not None
        return _allocate(ranges.multiply(over.size, over.size), factor)

    return rule


def _sets(factor: float) -> CostRule:
    def rule(overload: str, target: Operand | None, args: list[Operand]) -> CallCost | None:
        pairs = ranges.multiply(args[0].size, args[1].size)
        return CallCost(ranges.add(ranges.scale(pairs, factor), ONE))

    return rule


_SORTABLE = ("int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp")

# fmt: off
#: Rules that take precedence over those by function name.
BY_OVERLOAD_FIRST: Mapping[str, CostRule] = {
    "list_slice": _slice, "lists_range": _range, "list_reverse": _reverse, "list_flatten": _flatten,
    "list_flatten_int": _flatten, "list_distinct": _compare_all(2.0),
    **{f"list_{t}_sort": _compare_all(2.0) for t in _SORTABLE},
    **{f"list_{t}_sort": _compare_all(2.0 + TRAVERSAL) for t in ("string", "bytes")},
    **{f"list_{t}_sortByAssociatedKeys": _compare_all(2.0, True) for t in _SORTABLE},
    **{f"list_{t}_sortByAssociatedKeys": _compare_all(2.0 + TRAVERSAL, True) for t in ("string", "bytes")},
    "list_sets_contains_list": _sets(1.0), "list_sets_intersects_list": _sets(1.0),
    "list_sets_equivalent_list": _sets(2.0),
}
# fmt: on

# fmt: off
#: The rules of Kubernetes' libraries.
BY_FUNCTION: Mapping[str, CostRule] = {
    "check": _authorization_check, "fieldSelector": _requirement_selector, "labelSelector": _requirement_selector,
    **dict.fromkeys(
        (
            "serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed", "reason",
            "error", "errored", "format.named", "sign", "asInteger", "isInteger", "asApproximateFloat",
            "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major", "minor", "patch", "getScheme",
            "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery", "masked", "prefixLength", "family",
            "isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast",
        ),
        _constant,
    ),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _each_element),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _traverse_target),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _traverse_argument),
    "url": _url, "ip": _ip, "ip.isCanonical": _twice_argument, "replace": _replace, "split": _split, "join": _join,
    "find": _find, "findAll": _find, "containsIP": _contains_address(False), "containsCIDR": _contains_address(True),
    "validate": _validate, "_==_": _equals, "includes": _includes,
}
# fmt: on

# fmt: off
#: The rules of cel-go; every other overload costs 1.
BY_OVERLOAD: Mapping[str, CostRule] = {
    "string_format": _format, "string_to_bytes": _string_to_bytes, "bytes_to_string": _bytes_to_string,
    "strings_quote": _quote, "starts_with_string": _starts_with, "ends_with_string": _starts_with,
    "in_list": _in_list, "matches_string": _matches, "contains_string": _contains,
    **dict.fromkeys(
        (
            "less_string", "greater_string", "less_equals_string", "greater_equals_string", "less_bytes",
            "greater_bytes", "less_equals_bytes", "greater_equals_bytes", "equals", "not_equals",
        ),
        _compare,
    ),
}
# fmt: on

#: The rules of cel-go 0.29 that older versions do not have.
BY_OVERLOAD_SINCE_0_29: Mapping[str, CostRule] = {"matches": _global_matches}
