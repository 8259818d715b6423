"""Set operations on the field sets of ``metadata.managedFields``, in their JSON form (FieldsV1).

A set is a tree of path elements: ``f:NAME`` is a field, ``k:{…}`` the list item with these keys, ``v:…`` a member of a
set. An element without children (``{}``) is in the set; an element with children is in it only if ``"."`` is one of
them. Sets are immutable, so that managers and objects can share parts of them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from allotment.apiserver.writes.go_format import format_value
from allotment.model.quoting import quote

Fields = dict[str, Any]

#: The element itself, with nothing below.
MEMBER: Final[Fields] = {}

_SELF: Final = "."


def union(first: Fields, second: Fields) -> Fields:
    """The elements of either set. ``MEMBER`` as an argument means that the element itself is in the set."""
    if first is second or first == second:
        return first
    if not first:
        return second if _SELF in second else {_SELF: MEMBER, **second}
    if not second:
        return first if _SELF in first else {_SELF: MEMBER, **first}
    merged = dict(first)
    extended = False
    for element, children in second.items():
        present = merged.get(element)
        if present is None:
            merged[element] = children
            extended = True
        elif present is not children and present != children:
            merged[element] = union(present, children)
    return sort_fields(merged) if extended else merged


def optional_union(first: Fields | None, second: Fields | None) -> Fields | None:
    """The union of two whole sets (or elements), None being nothing."""
    if first is None or second is None:
        return second if first is None else first
    return union(first, second)


def difference(fields: Fields, removed: Fields) -> Fields | None:
    """``fields`` without ``removed``; None if nothing remains. Removing an element does not remove those below it."""
    removes_self = not removed or _SELF in removed
    if not fields:
        return None if removes_self else fields
    result = fields
    if removes_self and _SELF in fields:
        result = {element: children for element, children in fields.items() if element != _SELF}
    for element, children in removed.items():
        own = fields.get(element)
        if own is None or element == _SELF:
            continue
        remaining = difference(own, children)
        if remaining is not own:
            result = _replace(result, fields, element, remaining)
    return _normalized(result)


def recursive_difference(fields: Fields, removed: Fields) -> Fields | None:
    """``fields`` without ``removed`` and everything below its elements; None if nothing remains."""
    if not removed or _SELF in removed:
        return None
    result = fields
    for element, children in removed.items():
        own = fields.get(element)
        if own is None:
            continue
        remaining = recursive_difference(own, children)
        if remaining is not own:
            result = _replace(result, fields, element, remaining)
    return _normalized(result) if fields else fields


def _replace(result: Fields, original: Fields, element: str, remaining: Fields | None) -> Fields:
    if result is original:
        result = dict(original)
    if remaining is None:
        del result[element]
    else:
        result[element] = remaining
    return result


def _normalized(fields: Fields) -> Fields | None:
    """The canonical form: ``MEMBER`` for an element without children, None for an empty set."""
    if len(fields) == 1 and _SELF in fields:
        return MEMBER
    return fields or None


def intersection(first: Fields, second: Fields) -> Fields | None:
    """The elements of both sets; None if there are none."""
    in_first = not first or _SELF in first
    in_second = not second or _SELF in second
    result: Fields = {}
    for element, children in first.items():
        second_children = second.get(element)
        if second_children is None or element == _SELF:
            continue
        common = intersection(children, second_children)
        if common is not None:
            result[element] = common
    if in_first and in_second:
        return {_SELF: MEMBER, **result} if result else MEMBER
    return result or None


def paths(fields: Fields) -> Iterator[tuple[str, ...]]:
    """The path of every element in a whole set, in upstream's order: the elements of a level, then their children."""
    for element, children in fields.items():
        if element != _SELF and (not children or _SELF in children):
            yield (element,)
    for element, children in fields.items():
        if element != _SELF:
            for path in paths(children):
                yield (element, *path)


def contains(fields: Fields, path: tuple[str, ...]) -> bool:
    """Whether the element at a path is in the set."""
    for element in path:
        children = fields.get(element)
        if children is None:
            return False
        fields = children
    return not fields or _SELF in fields


def from_path(*names: str) -> Fields:
    """The set of one field: of_path("spec", "replicas")."""
    fields = MEMBER
    for name in reversed(names):
        fields = {f"f:{name}": fields}
    return fields


def path_text(path: tuple[str, ...]) -> str:
    """The path as error messages print it: ``.spec.containers[name="a"].image``."""
    return "".join(map(element_text, path))


def element_text(element: str) -> str:
    """One path element as error messages print it."""
    form, _, text = element.partition(":")
    if form == "f":
        return f".{text}"
    if form == "i":
        return f"[{text}]"
    value = msgspec.json.decode(text)
    if form == "v":
        return f"[={value_text(value)}]"
    return "[" + ",".join(f"{name}={value_text(value[name])}" for name in sorted(value)) + "]"


def value_text(value: Any) -> str:
    """A value as structured-merge-diff prints it in paths and errors."""
    if type(value) is str:
        return quote(value)
    if value is None:
        return "null"
    if type(value) is list:
        return f"[{','.join(map(value_text, value))}]"
    if type(value) is dict:
        return "".join(f"{key}={value_text(item)}" for key, item in value.items())
    return format_value(value)


def sort_fields(fields: Fields) -> Fields:
    """The same set with its elements in upstream's order: itself, fields, keys, values."""
    return {element: fields[element] for element in sorted(fields, key=_order)}


_RANKS: Final = {"f": 1, "k": 2, "v": 3, "i": 4}


@functools.lru_cache(8192)
def _order(element: str) -> tuple[int, Any]:
    form, _, text = element.partition(":")
    rank = _RANKS.get(form, 0)
    if rank < 2:
        return rank, text
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return 5, text
    if type(value) is dict:
        return rank, tuple((name, *_value_order(value[name])) for name in sorted(value))
    return rank, _value_order(value)


def _value_order(value: Any) -> tuple[int, Any]:
    """Sort key: numbers, then strings, then booleans."""
    if type(value) is bool:
        return 2, value
    if type(value) in (int, float):
        return 0, value
    return 1, value if type(value) is str else format_value(value)
