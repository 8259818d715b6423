"""What an applied configuration claims to own, and objects without what nobody claims any more.

Claims differ from changes: of maps and lists only what stands in them is owned, never they themselves, unless they
are empty maps.
"""

from __future__ import annotations

from typing import Any

from allotment.apiserver.writes.apply_schema import Structure, UnkeyedError
from allotment.apiserver.writes.field_sets import MEMBER, Fields, in_order
from allotment.model.trees import Tree


def claimed(structure: Structure, value: Any) -> Fields | None:
    """Every leaf and item that a value names; None if there is none."""
    relation = structure.relation
    if relation == "leaf" or (relation == "deduced" and type(value) is not dict):
        return MEMBER
    if not value:
        return None
    fields: Fields = {}
    if relation == "keyed" or relation == "set":
        inner = structure.element
        assert inner is not None
        for item in value:
            try:
                element = structure.item(item)
            except UnkeyedError:
                continue  # nobody can claim what has no name; what is applied was checked
            below = None if element in fields or relation == "set" else claimed(inner, item)
            fields[element] = _itself(below)
    else:
        for name, item in value.items():
            element, inner = structure.field(name)
            found = claimed(inner, item)
            if item is None or item == {} or not structure.declares(name):
                found = _itself(found)
            if found is not None:
                fields[element] = found
    return in_order(fields) or None


def _itself(below: Fields | None) -> Fields:
    """An element that is claimed together with what is claimed below."""
    if not below:
        return MEMBER
    return below if "." in below else {".": MEMBER, **below}


def with_named_fields(fields: Fields, structure: Structure) -> Fields:
    """The set with every declared field that has members below made a member itself."""
    result: Fields = {}
    for element, below in fields.items():
        if not below:
            result[element] = below
            continue
        inner, declared = _inner(structure, element)
        made = with_named_fields(below, inner) if inner is not None else below
        result[element] = _itself(made) if declared else made
    return result


def _inner(structure: Structure, element: str) -> tuple[Structure | None, bool]:
    form, _, name = element.partition(":")
    if structure.relation == "leaf":
        return None, False
    if form == "f":
        return structure.field(name)[1], structure.declares(name)
    return structure.element, False


def without(structure: Structure, value: Any, fields: Fields) -> Any:
    """The value without the members of a set; what is emptied by it is None."""
    relation = structure.relation
    if not isinstance(value, (dict, list)):
        return value
    if not value or relation == "leaf" or (type(value) is list) != (relation in ("keyed", "set")):
        return None
    if isinstance(value, list):
        return _without_items(structure, value, fields)
    members: Tree = value
    kept: Tree = {}
    for name, item in members.items():
        element, inner = structure.field(name)
        below = fields.get(element)
        if below is None:
            kept[name] = item
        elif below and "." not in below:
            kept[name] = without(inner, item, below)
    return kept or None


def _without_items(structure: Structure, values: list[Any], fields: Fields) -> list[Any] | None:
    inner = structure.element
    assert inner is not None
    kept = []
    for item in values:
        below = fields.get(structure.item(item))
        if below is None:
            kept.append(item)
        elif below and "." not in below:
            left = without(inner, item, below)
            if left is not None:
                kept.append(left)
    return kept or None
