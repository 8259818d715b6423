"""Sets of fields, in the very form that ``metadata.managedFields`` shows: no decoding, no encoding.

A set is a tree of path elements: ``f:NAME`` a field, ``k:{…}`` the item of a list with these keys, ``v:…`` the member
of a set. An element that has nothing below it (``{}``) is in the set; one that has is in it if ``"."`` is there too.
Sets are never changed once made, so that their parts are shared among managers and objects.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from allotment.apiserver.writes.go_maps import shown
from allotment.model.quoting import quote

Fields = dict[str, Any]

#: The element itself, with nothing below.
MEMBER: Final[Fields] = {}

_SELF: Final = "."


def union(one: Fields, other: Fields) -> Fields:
    """What is in either. ``MEMBER`` as a whole means that the element itself is in the set."""
    if one is other or one == other:
        return one
    if not one:
        return other if _SELF in other else {_SELF: MEMBER, **other}
    if not other:
        return one if _SELF in one else {_SELF: MEMBER, **one}
    merged = dict(one)
    grown = False
    for element, below in other.items():
        known = merged.get(element)
        if known is None:
            merged[element] = below
            grown = True
        elif known is not below and known != below:
            merged[element] = union(known, below)
    return in_order(merged) if grown else merged


def top_union(one: Fields | None, other: Fields | None) -> Fields | None:
    """The union of two whole sets (or elements), None being nothing."""
    if one is None or other is None:
        return other if one is None else one
    return union(one, other)


def difference(one: Fields, other: Fields) -> Fields | None:
    """What is in the one and not in the other; None if nothing. A parent does not take its children with it."""
    taken = not other or _SELF in other
    if not one:
        return None if taken else one
    result = one
    if taken and _SELF in one:
        result = {element: below for element, below in one.items() if element != _SELF}
    for element, below in other.items():
        mine = one.get(element)
        if mine is None or element == _SELF:
            continue
        left = difference(mine, below)
        if left is not mine:
            result = _with(result, one, element, left)
    return _plain(result)


def without_below(one: Fields, other: Fields) -> Fields | None:
    """The difference where an element of the other takes all below it along."""
    if not other or _SELF in other:
        return None
    result = one
    for element, below in other.items():
        mine = one.get(element)
        if mine is None:
            continue
        left = without_below(mine, below)
        if left is not mine:
            result = _with(result, one, element, left)
    return _plain(result) if one else one


def _with(result: Fields, one: Fields, element: str, left: Fields | None) -> Fields:
    if result is one:
        result = dict(one)
    if left is None:
        del result[element]
    else:
        result[element] = left
    return result


def _plain(fields: Fields) -> Fields | None:
    """An element with nothing below has one spelling; nothing is None."""
    if len(fields) == 1 and _SELF in fields:
        return MEMBER
    return fields or None


def intersection(one: Fields, other: Fields) -> Fields | None:
    """What is in both; None if nothing."""
    mine = not one or _SELF in one
    theirs = not other or _SELF in other
    result: Fields = {}
    for element, below in one.items():
        there = other.get(element)
        if there is None or element == _SELF:
            continue
        common = intersection(below, there)
        if common is not None:
            result[element] = common
    if mine and theirs:
        return {_SELF: MEMBER, **result} if result else MEMBER
    return result or None


def paths(fields: Fields) -> Iterator[tuple[str, ...]]:
    """The path of every element in a whole set, as upstream walks it: the elements of a level, then what is below."""
    for element, below in fields.items():
        if element != _SELF and (not below or _SELF in below):
            yield (element,)
    for element, below in fields.items():
        if element != _SELF:
            for path in paths(below):
                yield (element, *path)


def has(fields: Fields, path: tuple[str, ...]) -> bool:
    """Whether the element at a path is in the set."""
    for element in path:
        found = fields.get(element)
        if found is None:
            return False
        fields = found
    return not fields or _SELF in fields


def of_path(*names: str) -> Fields:
    """The set of one field: of_path("spec", "replicas")."""
    fields = MEMBER
    for name in reversed(names):
        fields = {f"f:{name}": fields}
    return fields


def path_text(path: tuple[str, ...]) -> str:
    """As refusals print it: ``.spec.containers[name="a"].image``."""
    return "".join(map(element_text, path))


def element_text(element: str) -> str:
    """One path element as refusals print it."""
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
    """A value as smd prints it within paths and errors."""
    if type(value) is str:
        return quote(value)
    if value is None:
        return "null"
    if type(value) is list:
        return f"[{','.join(map(value_text, value))}]"
    if type(value) is dict:
        return "".join(f"{key}={value_text(item)}" for key, item in value.items())
    return shown(value)


def in_order(fields: Fields) -> Fields:
    """The same set with its elements as upstream sorts them: itself, fields, keys, values."""
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
    """Numbers, then texts, then truth values."""
    if type(value) is bool:
        return 2, value
    if type(value) in (int, float):
        return 0, value
    return 1, value if type(value) is str else shown(value)
