"""Which fields a write touches: the two states of an object compared, as far as they differ.

Only what differs is walked; equal parts cost one comparison. The answers are sets of fields: what is new or another
value now, and what is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from allotment.apiserver.writes.apply_schema import Structure
from allotment.apiserver.writes.field_sets import MEMBER, Fields, in_order, union
from allotment.model.trees import Tree

#: What changed or came, and what went.
Touched = tuple[Fields | None, Fields | None]

#: What nobody owns: set by the server, or the object's identity.
_UNOWNED: Final = frozenset(
    {
        "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
        "resourceVersion",
    }
)  # fmt: skip
_NONE: Final[Tree] = {}


def compared(structure: Structure, old: Tree, new: Tree) -> Touched:
    """Two states of a whole object."""
    changed: Fields = {}
    removed: Fields = {}
    for name in sorted(old.keys() | new.keys()):
        if name == "kind" or name == "apiVersion":
            continue
        before, after = old.get(name), new.get(name)
        if before is after:
            continue
        if name == "metadata":
            _put("f:metadata", _metadata(structure.field(name)[1], before or _NONE, after or _NONE), changed, removed)
        elif name not in old:
            element, inner = structure.field(name)
            changed[element] = whole(inner, after)
        elif name not in new:
            element, inner = structure.field(name)
            removed[element] = whole(inner, before)
        elif before != after:
            element, inner = structure.field(name)
            _put(element, _different(inner, before, after), changed, removed)
    return changed or None, removed or None


def _metadata(structure: Structure, old: Tree, new: Tree) -> Touched:
    if structure.relation == "deduced":
        return _different(structure, _owned(old), _owned(new)) if old != new else (None, None)
    return _members(structure, _owned(old), _owned(new))


def _owned(metadata: Tree) -> Tree:
    return {name: value for name, value in metadata.items() if name not in _UNOWNED}


def _put(element: str, touched: Touched, changed: Fields, removed: Fields) -> None:
    if touched[0] is not None:
        changed[element] = touched[0]
    if touched[1] is not None:
        removed[element] = touched[1]


# --- a value that is wholly there, or wholly gone ----------------------------------------------------------------


def whole(structure: Structure, value: Any) -> Fields:
    """All fields of a value that stands against nothing."""
    relation = structure.relation
    if relation == "leaf" or not value:
        return MEMBER
    if relation == "struct":
        fields = {".": MEMBER}
        known = structure.fields
        for name in sorted(value):
            element, inner = known.get(name) or structure.field(name)
            item = value[name]
            fields[element] = MEMBER if not item or inner.relation == "leaf" else whole(inner, item)
        return fields
    return _WHOLE[relation](structure, value)


def _whole_map(structure: Structure, value: Tree) -> Fields:
    inner = structure.element
    assert inner is not None
    if inner.relation == "leaf":
        return {".": MEMBER} | {f"f:{name}": MEMBER for name in sorted(value)}
    return {".": MEMBER} | {f"f:{name}": whole(inner, value[name]) for name in sorted(value)}


def _whole_keyed(structure: Structure, value: list[Any]) -> Fields:
    inner = structure.element
    assert inner is not None
    fields: Fields = {".": MEMBER}
    for item in value:
        element = structure.item(item)
        # Of items with the same keys only their being there is told.
        fields[element] = MEMBER if element in fields else whole(inner, item)
    return in_order(fields) if len(fields) > 2 else fields


def _whole_set(structure: Structure, value: list[Any]) -> Fields:
    return in_order({".": MEMBER} | {structure.item(item): MEMBER for item in value})


def _whole_deduced(structure: Structure, value: Any) -> Fields:
    return _whole_map(structure, value) if type(value) is dict else MEMBER


_WHOLE: Final[dict[str, Callable[[Structure, Any], Fields]]] = {
    "map": _whole_map,
    "keyed": _whole_keyed,
    "set": _whole_set,
    "deduced": _whole_deduced,
}


# --- two values that differ --------------------------------------------------------------------------------------


def _different(structure: Structure, old: Any, new: Any) -> Touched:
    relation = structure.relation
    if relation == "leaf":
        return MEMBER, None
    if relation == "deduced" and not (type(old) is dict and type(new) is dict):
        return _another_form(structure, old, new)
    if not old and not new:
        return MEMBER, None  # null against an empty map or list
    if relation == "keyed" or relation == "set":
        return _items(structure, old or [], new or [])
    return _members(structure, old or _NONE, new or _NONE)


def _another_form(structure: Structure, old: Any, new: Any) -> Touched:
    """A value without a schema that was a map and is none any more, or the reverse, or never was."""
    changed = whole(structure, new) if type(new) is dict and new else MEMBER
    removed = None
    if type(old) is dict and old:
        removed = {element: below for element, below in whole(structure, old).items() if element != "."}
    return changed, removed


def _members(structure: Structure, old: Tree, new: Tree) -> Touched:
    changed: Fields = {}
    removed: Fields = {}
    for name, after in new.items():
        if name in old:
            before = old[name]
            if before is after or before == after:
                continue
            element, inner = structure.field(name)
            _put(element, _different(inner, before, after), changed, removed)
        else:
            element, inner = structure.field(name)
            changed[element] = whole(inner, after)
    for name in old:
        if name not in new:
            element, inner = structure.field(name)
            removed[element] = whole(inner, old[name])
    if len(changed) > 1:
        changed = in_order(changed)
    return changed or None, removed or None


def _items(structure: Structure, old: list[Any], new: list[Any]) -> Touched:
    inner = structure.element
    assert inner is not None
    before, after = _by_key(structure, old), _by_key(structure, new)
    changed: Fields = {}
    removed: Fields = {}
    for element, items in after.items():
        there = before.get(element)
        if there is None:
            changed[element] = whole(inner, items[0]) if len(items) == 1 else MEMBER
        elif len(there) == 1 and len(items) == 1:
            if there[0] is not items[0] and there[0] != items[0]:
                _put(element, _different(inner, there[0], items[0]), changed, removed)
        elif len(there) > 1 and len(items) > 1:
            if there != items:
                changed[element] = MEMBER
        elif len(there) > 1:
            changed[element] = whole(inner, items[0])
            removed[element] = MEMBER
        else:
            removed[element] = whole(inner, there[0])
            changed[element] = MEMBER
    for element, there in before.items():
        if element not in after:
            removed[element] = whole(inner, there[0]) if len(there) == 1 else MEMBER
    if len(changed) > 1:
        changed = in_order(changed)
    return changed or None, removed or None


def _by_key(structure: Structure, items: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(structure.item(item), []).append(item)
    return found


def both(one: Touched, other: Touched) -> Fields | None:
    """All that either side of two comparisons names."""
    result: Fields | None = None
    for fields in (*one, *other):
        if fields is not None:
            result = fields if result is None else union(result, fields)
    return result
