"""Functions on lists: the Kubernetes list library, lists v3, sets, and ``includes``.

As upstream, an error in the comparison of two elements counts as no match.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Final

from allotment.cel.evaluation.equality import COMPARABLE, NO_SUCH_OVERLOAD, compare, equal_in_search
from allotment.cel.evaluation.library import arithmetic
from allotment.cel.evaluation.value_format import go_format
from allotment.cel.evaluation.values import (
    ABSENT,
    NONE,
    CelError,
    CostLimitExceeded,
    Duration,
    ListValue,
    MapValue,
    Optional,
    Uint,
    Value,
    map_key,
    type_name,
)

_MAX_INCLUDES_ELEMENTS: Final = 48
_MAX_INSERTION_SORT: Final = 12


def _comparable(value: Value) -> Value:
    if type(value) not in COMPARABLE:
        raise CelError(NO_SUCH_OVERLOAD)
    return value


def _order(left: Value, right: Value) -> int | None:
    try:
        return compare(left, right)
    except CelError:
        return None


def is_sorted(values: ListValue) -> bool:
    """Whether no element is greater than the next."""
    items = values.items
    if {type(item) for item in items} in ({str}, {int}):
        return all(map(operator.le, items, items[1:]))
    for i, item in enumerate(items):
        _comparable(item)
        if i and _order(items[i - 1], item) == 1:
            return False
    return True


def _sum(zero: Value) -> Callable[[ListValue], Value]:
    def total(values: ListValue) -> Value:
        result = zero
        for item in values.items:
            result = arithmetic.add(result, item)
        return result

    return total


def _extreme(name: str, replaced_when: int) -> Callable[[ListValue], Value]:
    def extreme(values: ListValue) -> Value:
        items = values.items
        if not items:
            raise CelError(f"{name} called on empty list")
        best = _comparable(items[0])
        for item in items[1:]:
            if _order(best, _comparable(item)) == replaced_when:
                best = item
        return best

    return extreme


def index_of(values: ListValue, element: Value) -> int:
    """The index of the first equal element, or -1."""
    for i, item in enumerate(values.items):
        if equal_in_search(item, element):
            return i
    return -1


def last_index_of(values: ListValue, element: Value) -> int:
    """The index of the last equal element, or -1."""
    for i in range(values.size - 1, -1, -1):
        if equal_in_search(values.items[i], element):
            return i
    return -1


# --- lists v3 ----------------------------------------------------------------------------------------------------


def slice_list(values: ListValue, start: int, end: int) -> ListValue:
    """The elements from ``start`` to ``end``, exclusive."""
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if values.size < end:
        raise CelError(f"cannot slice({start}, {end}), list is length {values.size}")
    return ListValue(values.items[start:end])


def _type_with_parameters(value: Value) -> str:
    """The type of a value with its parameters, which are dyn at run time."""
    return {"list": "list(dyn)", "map": "map(dyn, dyn)"}.get(type_name(value), type_name(value))


def flatten(values: Value) -> ListValue:
    """Replaces elements that are lists by their elements."""
    if type(values) is not ListValue:
        raise CelError(f"no such overload: {_type_with_parameters(values)}.flatten()")
    return _flattened(values, 1)


def flatten_depth(values: Value, depth: Value) -> ListValue:
    """``flatten`` up to a depth of nesting."""
    if type(values) is not ListValue or type(depth) is not int:
        raise CelError(f"no such overload: {_type_with_parameters(values)}.flatten({_type_with_parameters(depth)})")
    return _flattened(values, depth)


def _flattened(values: ListValue, depth: int) -> ListValue:
    if depth < 0:
        raise CelError("level must be non-negative")
    flat: list[Value] = []
    stack: list[tuple[ListValue, int, int]] = [(values, 0, depth)]
    while stack:
        part, start, left = stack.pop()
        items = part.items
        for i in range(start, len(items)):
            item = items[i]
            if left and type(item) is ListValue:
                stack.append((part, i + 1, left))
                stack.append((item, 0, left - 1))
                break
            flat.append(item)
        if len(flat) > ListValue.MAX_ELEMENTS:
            raise CostLimitExceeded
    return ListValue(flat)


def sort(values: Value) -> ListValue:
    """The elements in ascending order."""
    if type(values) is not ListValue:
        arithmetic.raise_no_such_overload("sort", values)
    return sort_by_keys(values, values)


def sort_by_keys(values: Value, keys: Value) -> ListValue:
    """The elements in the order of the keys at the same positions; ``sortBy`` expands to this function."""
    if type(values) is not ListValue:
        arithmetic.raise_no_such_overload("@sortByAssociatedKeys", values)
    order_by = keys.items
    if not order_by:
        return values
    first = type(order_by[0])
    if first not in COMPARABLE:
        raise CelError("list elements must be comparable")
    if any(type(key) is not first for key in order_by):
        raise CelError("list elements must have the same type")
    items = values.items
    return ListValue([items[position] for position in _sorted_positions(order_by)])


def _sorted_positions(keys: Sequence[Value]) -> list[int]:
    positions = list(range(len(keys)))

    def order(i: int, j: int) -> int:
        return _order(keys[i], keys[j]) or 0

    if len(keys) > _MAX_INSERTION_SORT:
        positions.sort(key=functools.cmp_to_key(order))
        return positions
    # Go uses insertion sort for short lists, which determines the positions of keys without an order (NaN).
    for i in range(1, len(positions)):
        j = i
        while j and _order(keys[positions[j]], keys[positions[j - 1]]) == -1:
            positions[j], positions[j - 1] = positions[j - 1], positions[j]
            j -= 1
    return positions


def range_list(count: int) -> ListValue:
    """The integers from 0 to ``count``, exclusive."""
    return ListValue(range(max(count, 0)))


def reverse(values: ListValue) -> ListValue:
    """The elements from last to first."""
    return ListValue(values.items[::-1])


_HASHABLE_TYPES: Final = frozenset({str, int})


def distinct(values: ListValue) -> ListValue:
    """The distinct elements in the order of their first occurrence."""
    if not values.size:
        return values
    items = values.items
    if {type(item) for item in items} <= _HASHABLE_TYPES:
        return ListValue(list(dict.fromkeys(items)))
    unique: list[Value] = []
    for item in items:
        for other in unique:
            if equal_in_search(item, other):
                break
        else:
            unique.append(item)
    return ListValue(unique)


def first(values: ListValue) -> Optional:
    """The first element as an optional."""
    return Optional(values.at(0)) if values.size else NONE


def last(values: ListValue) -> Optional:
    """The last element as an optional."""
    return Optional(values.at(values.size - 1)) if values.size else NONE


# --- sets --------------------------------------------------------------------------------------------------------


def sets_contains(values: ListValue, subset: ListValue) -> bool:
    """Whether every element of ``subset`` is in ``values``."""
    for element in subset.items:  # noqa: SIM110 - deep values must not recurse through C
        if not arithmetic.is_in(element, values):
            return False
    return True


def sets_intersects(left: ListValue, right: ListValue) -> bool:
    """Whether an element of ``left`` is in ``right``."""
    for item in left.items:  # noqa: SIM110 - deep values must not recurse through C
        if arithmetic.is_in(item, right):
            return True
    return False


def sets_equivalent(left: ListValue, right: ListValue) -> bool:
    """Whether each contains the other."""
    return sets_contains(left, right) and sets_contains(right, left)


# --- KEP-5491 ----------------------------------------------------------------------------------------------------


def includes(target: Value, element: Value) -> bool:
    """Whether a list attribute contains a value, or a scalar attribute equals it."""
    if type(target) is not ListValue:
        return equal_in_search(target, element)
    for i, item in enumerate(target.items):
        if i >= _MAX_INCLUDES_ELEMENTS:
            raise CelError(
                f"'includes' function cannot be applied to lists longer than {_MAX_INCLUDES_ELEMENTS} values"
            )
        if equal_in_search(item, element):
            return True
    return False


def includes_any(target: Value, element: Value) -> bool:
    """``includes`` from 1.37 on: for lists of any length."""
    if type(target) is not ListValue:
        return equal_in_search(target, element)
    return any(equal_in_search(item, element) for item in target.items)


# --- functions that the transformMap macros expand to ------------------------------------------------------------


def insert(target: MapValue, key: Value, value: Value) -> MapValue:
    """Adds an entry to a map under construction. Raises CelError for a duplicate key."""
    if target.find(key) is not ABSENT:
        raise CelError(f"insert failed: key {go_format(key)} already exists")
    target.entries[map_key(key)] = (key, value)
    return target


def insert_all(target: MapValue, entries: MapValue) -> MapValue:
    """Adds all entries of a map, in the order of its keys."""
    for key in entries.ordered_keys():
        insert(target, key, entries.find(key))
    return target


_COMPARABLE_NAMES: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_ZEROS: Final = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}

OVERLOADS: Final[dict[str, Callable[..., Value]]] = {
    **{f"list_{t}_is_sorted_bool": is_sorted for t in _COMPARABLE_NAMES},
    **{f"list_{t}_min_{t}": _extreme("min", 1) for t in _COMPARABLE_NAMES},
    **{f"list_{t}_max_{t}": _extreme("max", -1) for t in _COMPARABLE_NAMES},
    **{f"list_{t}_sum_{t}": _sum(zero) for t, zero in _ZEROS.items()},
    "list_a_index_of_int": index_of,
    "list_a_last_index_of_int": last_index_of,
    "list_slice": slice_list,
    "list_flatten": flatten,
    "list_flatten_int": flatten_depth,
    "lists_range": range_list,
    "list_reverse": reverse,
    "list_distinct": distinct,
    "list_first": first,
    "list_last": last,
    "list_sets_contains_list": sets_contains,
    "list_sets_intersects_list": sets_intersects,
    "list_sets_equivalent_list": sets_equivalent,
    "dra_includes_dyn_dyn": includes,
    "list_includes_dyn_dyn": includes_any,
    "@mapInsert_map_key_value": insert,
    "@mapInsert_map_map": insert_all,
}

UNGUARDED: Final = frozenset({"list_flatten", "list_flatten_int"})

SINGLETONS: Final[dict[str, Callable[..., Value]]] = {"sort": sort, "@sortByAssociatedKeys": sort_by_keys}
