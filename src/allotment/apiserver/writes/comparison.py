"""Compares two states of an object, and returns the sets of fields that a write sets, changes or removes.

Only differing parts are walked; equal parts cost one comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from allotment.apiserver.writes.apply_schema import Structure
from allotment.apiserver.writes.field_sets import MEMBER, Fields, sort_fields
from allotment.model.trees import Tree

#: The fields that were set or changed, and those that were removed.
Changes = tuple[Fields | None, Fields | None]

#: Metadata without an owner: set by the server, or the object's identity.
_UNOWNED: Final = frozenset(
    {
        "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
        "resourceVersion",
    }
)  # fmt: skip
_NONE: Final[Tree] = {}


def compare(structure: Structure, old: Tree, new: Tree) -> Changes:
    """The changes between two states of an object."""
    changed: Fields = {}
    removed: Fields = {}
    for name in sorted(old.keys() | new.keys()):
        if name == "kind" or name == "apiVersion":
            continue
        before, after = old.get(name), new.get(name)
        if before is after:
            continue
        if name == "metadata":
            _add(
                "f:metadata",
                _compare_metadata(structure.field(name)[1], before or _NONE, after or _NONE),
                changed,
                removed,
            )
        elif name not in old:
            element, inner = structure.field(name)
            changed[element] = all_fields(inner, after)
        elif name not in new:
            element, inner = structure.field(name)
            removed[element] = all_fields(inner, before)
        elif before != after:
            element, inner = structure.field(name)
            _add(element, _compare_values(inner, before, after), changed, removed)
    return changed or None, removed or None


def _compare_metadata(structure: Structure, old: Tree, new: Tree) -> Changes:
    if structure.relation == "deduced":
        return _compare_values(structure, _ownable(old), _ownable(new)) if old != new else (None, None)
    return _compare_members(structure, _ownable(old), _ownable(new))


def _ownable(metadata: Tree) -> Tree:
    return {name: value for name, value in metadata.items() if name not in _UNOWNED}


def _add(element: str, changes: Changes, changed: Fields, removed: Fields) -> None:
    if changes[0] is not None:
        changed[element] = changes[0]
    if changes[1] is not None:
        removed[element] = changes[1]


# --- a value that exists in one state only ------------------------------------------------------------------------


def all_fields(structure: Structure, value: Any) -> Fields:
    """All fields of a value that is absent in the other state."""
    relation = structure.relation
    if relation == "leaf" or not value:
        return MEMBER
    if relation == "struct":
        fields = {".": MEMBER}
        fields_by_name = structure.fields
        for name in sorted(value):
            element, inner = fields_by_name.get(name) or structure.field(name)
            item = value[name]
            fields[element] = MEMBER if not item or inner.relation == "leaf" else all_fields(inner, item)
        return fields
    return _ALL_FIELDS[relation](structure, value)


def _all_map_fields(structure: Structure, value: Tree) -> Fields:
    inner = structure.element
    assert inner is not None
    if inner.relation == "leaf":
        return {".": MEMBER} | {f"f:{name}": MEMBER for name in sorted(value)}
    return {".": MEMBER} | {f"f:{name}": all_fields(inner, value[name]) for name in sorted(value)}


def _all_keyed_items(structure: Structure, value: list[Any]) -> Fields:
    inner = structure.element
    assert inner is not None
    fields: Fields = {".": MEMBER}
    for item in value:
        element = structure.item(item)
        # Of several items with the same keys, only the element itself is in the set.
        fields[element] = MEMBER if element in fields else all_fields(inner, item)
    return sort_fields(fields) if len(fields) > 2 else fields


def _all_set_members(structure: Structure, value: list[Any]) -> Fields:
    return sort_fields({".": MEMBER} | {structure.item(item): MEMBER for item in value})


def _all_deduced_fields(structure: Structure, value: Any) -> Fields:
    return _all_map_fields(structure, value) if type(value) is dict else MEMBER


_ALL_FIELDS: Final[dict[str, Callable[[Structure, Any], Fields]]] = {
    "map": _all_map_fields,
    "keyed": _all_keyed_items,
    "set": _all_set_members,
    "deduced": _all_deduced_fields,
}


# --- two values that differ --------------------------------------------------------------------------------------


def _compare_values(structure: Structure, old: Any, new: Any) -> Changes:
    relation = structure.relation
    if relation == "leaf":
        return MEMBER, None
    if relation == "deduced" and not (type(old) is dict and type(new) is dict):
        return _compare_deduced(structure, old, new)
    if not old and not new:
        return MEMBER, None  # null against an empty map or list
    if relation == "keyed" or relation == "set":
        return _compare_items(structure, old or [], new or [])
    return _compare_members(structure, old or _NONE, new or _NONE)


def _compare_deduced(structure: Structure, old: Any, new: Any) -> Changes:
    """The changes of a value without a schema, of which at least one state is not a map."""
    changed = all_fields(structure, new) if type(new) is dict and new else MEMBER
    removed = None
    if type(old) is dict and old:
        removed = {element: children for element, children in all_fields(structure, old).items() if element != "."}
    return changed, removed


def _compare_members(structure: Structure, old: Tree, new: Tree) -> Changes:
    changed: Fields = {}
    removed: Fields = {}
    for name, after in new.items():
        if name in old:
            before = old[name]
            if before is after or before == after:
                continue
            element, inner = structure.field(name)
            _add(element, _compare_values(inner, before, after), changed, removed)
        else:
            element, inner = structure.field(name)
            changed[element] = all_fields(inner, after)
    for name in old:
        if name not in new:
            element, inner = structure.field(name)
            removed[element] = all_fields(inner, old[name])
    if len(changed) > 1:
        changed = sort_fields(changed)
    return changed or None, removed or None


def _compare_items(structure: Structure, old: list[Any], new: list[Any]) -> Changes:
    inner = structure.element
    assert inner is not None
    before, after = _items_by_element(structure, old), _items_by_element(structure, new)
    changed: Fields = {}
    removed: Fields = {}
    for element, new_items in after.items():
        old_items = before.get(element)
        if old_items is None:
            changed[element] = all_fields(inner, new_items[0]) if len(new_items) == 1 else MEMBER
        elif len(old_items) == 1 and len(new_items) == 1:
            if old_items[0] is not new_items[0] and old_items[0] != new_items[0]:
                _add(element, _compare_values(inner, old_items[0], new_items[0]), changed, removed)
        elif len(old_items) > 1 and len(new_items) > 1:
            if old_items != new_items:
                changed[element] = MEMBER
        elif len(old_items) > 1:
            changed[element] = all_fields(inner, new_items[0])
            removed[element] = MEMBER
        else:
            removed[element] = all_fields(inner, old_items[0])
            changed[element] = MEMBER
    for element, old_items in before.items():
        if element not in after:
            removed[element] = all_fields(inner, old_items[0]) if len(old_items) == 1 else MEMBER
    if len(changed) > 1:
        changed = sort_fields(changed)
    return changed or None, removed or None


def _items_by_element(structure: Structure, items: list[Any]) -> dict[str, list[Any]]:
    result: dict[str, list[Any]] = {}
    for item in items:
        result.setdefault(structure.item(item), []).append(item)
    return result
