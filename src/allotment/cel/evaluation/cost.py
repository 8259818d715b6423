"""The runtime cost of calls.

A cost is a constant, or a function of the arguments and the result; failed arguments and results are passed as
:class:`~allotment.cel.evaluation.values.CelError` and have size 1. Rules are looked up once, when a selector is
planned: by overload id for the lists and sets libraries, then by function name for Kubernetes' functions, then by
overload id for the rest. A call that is resolved at run time has no overload id, so no rule by overload applies, as
upstream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Final, TypeAlias

from allotment.cel.evaluation.library.named_formats import NamedFormat
from allotment.cel.evaluation.library.network import CIDR, IP
from allotment.cel.evaluation.library.url import URL
from allotment.cel.evaluation.values import (
    EvaluationAborted,
    ListValue,
    MapValue,
    Optional,
    QuantityPointer,
    Uint,
    Value,
    go_type,
    size,
)
from allotment.model.quantity import Quantity
from allotment.model.semver import Semver

_SCALARS: Final = frozenset({int, Uint, float, bool, type(None)})

CostFunction: TypeAlias = Callable[[Sequence[Value], Value], int]

STRING_FACTOR: Final = 0.1
REGEX_FACTOR: Final = 0.25
LIST: Final = 10
MAP: Final = 30
STRUCT: Final = 40
#: Two checks are within the limit of an expression.
AUTHORIZATION_CHECK: Final = 350_000

#: The costs of traversing a string of up to 1024 code points, for the planner's fast paths.
TRAVERSAL: Final = tuple(ceil(n * STRING_FACTOR) for n in range(1025))


def _library_size(value: Value) -> int:
    """The size that Kubernetes' rules use; an optional has size 1."""
    return 1 if type(value) is Optional else size(value)


def _traverse_argument(factor: float) -> CostFunction:
    return lambda arguments, result: ceil(_library_size(arguments[0]) * factor)


def _pattern(arguments: Sequence[Value], result: Value) -> int:
    return ceil((1.0 + size(arguments[0])) * STRING_FACTOR) * ceil(size(arguments[1]) * REGEX_FACTOR)


def _string_traversal(value: str) -> int:
    length = len(value) if value.isascii() else len(value.encode("utf-8", "surrogateescape"))
    return int(length * STRING_FACTOR)


def _depth_first(value: Value) -> int:
    """The cost of traversing a value, as Kubernetes' list functions count it."""
    kind = type(value)
    if kind is str:
        return _string_traversal(value)
    if kind is bytes:
        return int(len(value) * STRING_FACTOR)
    if kind is ListValue:
        kinds = {type(item) for item in value.items}
        if kinds <= _SCALARS:
            return value.size
        if kinds == {str}:
            return sum([_string_traversal(item) for item in value.items])
        total = 0
        for item in value.items:
            total += _depth_first(item)
        return total
    if kind is MapValue:
        total = 0
        for key, item in value.entries.values():
            total += _depth_first(key) + _depth_first(item)
        return total
    return 1


def _traverse_value(arguments: Sequence[Value], result: Value) -> int:
    return _depth_first(arguments[0])


def _join(arguments: Sequence[Value], result: Value) -> int:
    return ceil(_library_size(result) * 2 * STRING_FACTOR)


def _containment(text_argument: bool, mask: bool) -> CostFunction:
    def cost(arguments: Sequence[Value], result: Value) -> int:
        own = _library_size(arguments[0])
        total = ceil((own + own) * STRING_FACTOR)
        if mask:
            total += ceil(own * STRING_FACTOR) + 1
        if text_argument:
            total += ceil(_library_size(arguments[1]) * STRING_FACTOR)
        return total

    return cost


def _validate(arguments: Sequence[Value], result: Value) -> int:
    named = arguments[0]
    if type(named) is not NamedFormat:
        return 1
    return ceil((1.0 + _library_size(arguments[1])) * STRING_FACTOR) * ceil(named.regex_size * REGEX_FACTOR)


def _shorter(arguments: Sequence[Value], result: Value) -> int:
    return ceil(min(size(arguments[0]), size(arguments[1])) * STRING_FACTOR)


_UNIT_EQUALITY: Final = frozenset({Quantity, QuantityPointer, Semver, IP, CIDR, URL, NamedFormat})


def equality(left: Value, right: Value) -> int:
    """The cost of ``==``."""
    if type(left) in _UNIT_EQUALITY:
        return 1
    return ceil(min(size(left), size(right)) * STRING_FACTOR)


def inequality(left: Value, right: Value) -> int:
    """The cost of ``!=``, which has no unit costs for Kubernetes types."""
    return ceil(min(size(left), size(right)) * STRING_FACTOR)


# --- lists and sets ----------------------------------------------------------------------------------------------


def _result_size(arguments: Sequence[Value], result: Value) -> int:
    return size(result) + 1 + LIST


def _flatten(arguments: Sequence[Value], result: Value) -> int:
    depth = arguments[1] if len(arguments) == 2 else 1
    if type(depth) is not int:
        raise EvaluationAborted(f"internal error: interface conversion: ref.Val is {_go_name(depth)}, not types.Int")
    return _uint64(float(size(arguments[0])) * float(depth)) + 1 + LIST


def _uint64(value: float) -> int:
    """Converts a double to uint64 as Go does on amd64. A negative value wraps around there; here it stays negative, and
    checks of the limit treat a negative cost as exceeding it."""
    if value >= 2.0**64 or value < -(2.0**63):
        return 1 << 63
    return int(value)


def _go_name(value: Value) -> str:
    return "*types.Err" if isinstance(value, Exception) else go_type(value)


def _self_compare(position: int) -> CostFunction:
    def cost(arguments: Sequence[Value], result: Value) -> int:
        values = arguments[position]
        if type(values) is not ListValue:
            # Upstream's cost tracker asserts a list and panics.
            name = _go_name(values)
            missing = "Contains" if name in _WITH_ADD else "Add"
            raise EvaluationAborted(
                f"internal error: interface conversion: {name} is not traits.Lister: missing method {missing}"
            )
        count = values.size
        factor = 2.0 + (STRING_FACTOR if count and type(values.at(0)) in (str, bytes) else 0.0)
        return int(float(count * count) * factor) + 1 + LIST

    return cost


_WITH_ADD: Final = frozenset(
    {"types.String", "types.Bytes", "types.Int", "types.Uint", "types.Double", "types.Duration", "types.Timestamp"}
)


def _product(factor: float) -> CostFunction:
    return lambda arguments, result: 1 + int(float(size(arguments[0]) * size(arguments[1])) * factor)


_SORTED: Final = (
    "int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp", "string", "bytes",
)  # fmt: skip

_BY_OVERLOAD: Final[dict[str, CostFunction]] = {
    "list_slice": _result_size, "lists_range": _result_size, "list_reverse": _result_size,
    "list_flatten": _flatten, "list_flatten_int": _flatten,
    "list_distinct": _self_compare(0),
    **{f"list_{t}_sort": _self_compare(0) for t in _SORTED},
    **{f"list_{t}_sortByAssociatedKeys": _self_compare(1) for t in _SORTED},
    "list_sets_contains_list": _product(1), "list_sets_intersects_list": _product(1),
    "list_sets_equivalent_list": _product(2),
    "list_includes_dyn_dyn": _traverse_value,
}  # fmt: skip

_BY_FUNCTION: Final[dict[str, CostFunction]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traverse_value),
    **dict.fromkeys(
        (
            "url", "lowerAscii", "upperAscii", "substring", "trim", "cidr", "isIP", "isCIDR", "ip", "quantity",
            "isQuantity", "semver", "isSemver",
        ),
        _traverse_argument(STRING_FACTOR),
    ),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _traverse_argument(2 * STRING_FACTOR)),
    "join": _join,
    "find": _pattern, "findAll": _pattern,
    "validate": _validate,
}  # fmt: skip


def _traverse_first(arguments: Sequence[Value], result: Value) -> int:
    return ceil(size(arguments[0]) * STRING_FACTOR)


_BY_LANGUAGE_OVERLOAD: Final[dict[str, CostFunction]] = {
    **dict.fromkeys(
        (
            "starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string", "strings_quote",
            "string_format",
        ),
        _traverse_first,
    ),
    "in_list": lambda arguments, result: size(arguments[1]),
    **dict.fromkeys(
        (
            "less_string", "greater_string", "less_equals_string", "greater_equals_string",
            "less_bytes", "greater_bytes", "less_equals_bytes", "greater_equals_bytes",
        ),
        _shorter,
    ),
    **dict.fromkeys(
        ("add_string", "add_bytes"),
        lambda arguments, result: ceil((size(arguments[0]) + size(arguments[1])) * STRING_FACTOR),
    ),
    "matches_string": _pattern,
    "contains_string": lambda arguments, result: (
        ceil(size(arguments[0]) * STRING_FACTOR) * ceil(size(arguments[1]) * STRING_FACTOR)
    ),
}  # fmt: skip


def _traverse_second(arguments: Sequence[Value], result: Value) -> int:
    return ceil(size(arguments[1]) * STRING_FACTOR)


#: The rules of cel-go 0.29 that differ from those of older versions.
_SINCE_0_29: Final[dict[str, CostFunction]] = {
    "starts_with_string": _traverse_second,
    "ends_with_string": _traverse_second,
    "matches": _pattern,
}


def call(function: str, overload: str, cel_go: tuple[int, int]) -> CostFunction | int:
    """The cost rule of a call; ``overload`` is empty if the call is resolved at run time."""
    rule = _BY_OVERLOAD.get(overload)
    if rule is None and cel_go >= (0, 29):
        rule = _SINCE_0_29.get(overload)
    if rule is not None:
        return rule
    if function == "check":
        return AUTHORIZATION_CHECK
    if function == "ip" and overload == "cidr_ip":
        return 1
    if function == "containsIP":
        return _containment(overload == "cidr_contains_ip_string", False)
    if function == "containsCIDR":
        return _containment(overload == "cidr_contains_cidr_string", True)
    rule = _BY_FUNCTION.get(function)
    if rule is not None:
        return rule
    return _BY_LANGUAGE_OVERLOAD.get(overload, 1)
