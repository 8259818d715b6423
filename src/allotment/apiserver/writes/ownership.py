"""The fields that an applied configuration owns, and the removal of fields that no manager owns any more.

Ownership differs from changes: of maps and lists only the contents are owned, never the map or list itself, unless it
is an empty map.
"""

from __future__ import annotations

from typing import Any

from allotment.apiserver.writes.apply_schema import Structure, UnkeyedError
from allotment.apiserver.writes.field_sets import MEMBER, Fields, sort_fields
from allotment.model.trees import Tree


def to_field_set(structure: Structure, value: Any) -> Fields | None:
    """The set of all leaves and items of a value; None if there are none."""
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
                continue  # an item without a path element has no owner; applied items were validated
            children = None if element in fields or relation == "set" else to_field_set(inner, item)
            fields[element] = _as_member(children)
    else:
        for name, item in value.items():
            element, inner = structure.field(name)
            children = to_field_set(inner, item)
            if item is None or item == {} or not structure.declares(name):
                children = _as_member(children)
            if children is not None:
                fields[element] = children
    return sort_fields(fields) or None


def _as_member(children: Fields | None) -> Fields:
    """The children with the element itself as a member."""
    if not children:
        return MEMBER
    return children if "." in children else {".": MEMBER, **children}


def with_named_fields(fields: Fields, structure: Structure) -> Fields:
    """The set in which every declared field with children is a member as well."""
    result: Fields = {}
    for element, children in fields.items():
        if not children:
            result[element] = children
            continue
        inner, declared = _inner(structure, element)
        inner_fields = with_named_fields(children, inner) if inner is not None else children
        result[element] = _as_member(inner_fields) if declared else inner_fields
    return result


def _inner(structure: Structure, element: str) -> tuple[Structure | None, bool]:
    form, _, name = element.partition(":")
    if structure.relation == "leaf":
        return None, False
    if form == "f":
        return structure.field(name)[1], structure.declares(name)
    return structure.element, False


def without_fields(structure: Structure, value: Any, fields: Fields) -> Any:
    """The value without the members of a set; maps and lists that become empty are None."""
    relation = structure.relation
    if not isinstance(value, (dict, list)):
        return value
    if not value or relation == "leaf" or (type(value) is list) != (relation in ("keyed", "set")):
        return None
    if isinstance(value, list):
        return _without_list_items(structure, value, fields)
    members: Tree = value
    kept: Tree = {}
    for name, item in members.items():
        element, inner = structure.field(name)
        children = fields.get(element)
        if children is None:
            kept[name] = item
        elif children and "." not in children:
            kept[name] = without_fields(inner, item, children)
    return kept or None


def _without_list_items(structure: Structure, values: list[Any], fields: Fields) -> list[Any] | None:
    inner = structure.element
    assert inner is not None
    kept = []
    for item in values:
        children = fields.get(structure.item(item))
        if children is None:
            kept.append(item)
        elif children and "." not in children:
            remaining = without_fields(inner, item, children)
            if remaining is not None:
                kept.append(remaining)
    return kept or None
