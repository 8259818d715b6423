"""Strategic merge patch: merges lists by a merge key or as sets, as the field's patch strategy declares.

The strategy of a field is ``patchStrategy: merge`` with a merge key (lists of maps) or without (sets of scalars),
``retainKeys``, or none, which replaces. A patch can contain the directives ``$patch`` (``delete``, ``replace``),
``$retainKeys``, ``$deleteFromPrimitiveList/NAME`` and ``$setElementOrder/NAME``. After a merge, items of the patch are
in the patch's order and other items in their former order, interleaved as in the live list (Kubernetes' preserve-order
design).

The arguments are not modified. If two of the errors below apply, the real server reports a random one, because it
iterates over a Go map; here it is the first as written.
"""

from __future__ import annotations

from typing import Any, Final

from allotment.apiserver.writes.go_format import format_value
from allotment.apiserver.writes.merge_patch import without_nulls
from allotment.apiserver.writes.patch_errors import bad_request, inapplicable, unclassified
from allotment.cluster.errors import StatusError
from allotment.model.fields import Field, TypeShape
from allotment.model.trees import Tree

Items = list[Any]

DIRECTIVE: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
DELETE_FROM_LIST: Final = "$deleteFromPrimitiveList"
SET_ORDER: Final = "$setElementOrder"

_GO_TYPES: Final = {
    dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool", int: "int64",
    float: "float64",
}  # fmt: skip


def apply_strategic_merge_patch(tree: Tree, patch: Any, shape: TypeShape | None) -> Tree:
    """The patched object. Kinds without a compiled type (``shape`` None) do not support this type of patch."""
    if shape is None:
        raise bad_request("strategic merge patch format is not supported")
    if type(patch) is not dict:
        if patch is None:
            return tree
        json_type = {list: "array", str: "string", bool: "bool"}.get(type(patch), "number")
        raise bad_request(f"json: cannot unmarshal {json_type} into Go value of type map[string]interface {{}}")
    return _merge_map(tree, patch, shape)


# --- maps --------------------------------------------------------------------------------------------------------


def _merge_map(tree: Tree, patch: Tree, shape: TypeShape) -> Tree:
    if DIRECTIVE in patch:
        return _apply_directive(patch)
    merged = dict(tree)
    if RETAIN_KEYS in patch:
        _retain_keys(merged, patch)
    ordered = _merge_ordered_lists(merged, patch, shape)
    for name, patch_value in patch.items():
        if name in ordered or name == RETAIN_KEYS or name.startswith(SET_ORDER):
            continue
        deleting = name.startswith(DELETE_FROM_LIST)
        key = _list_name(name, DELETE_FROM_LIST) if deleting else name
        live_value: Any = merged.get(key)
        if patch_value is None:
            merged.pop(key, None)
        elif key not in merged or type(live_value) is not type(patch_value):
            if not deleting:
                _set(merged, key, without_nulls(patch_value))
        elif type(patch_value) is dict:
            field = _field(shape, key)
            merged[key] = _merge_map_field(live_value, patch_value, field, _element_shape(shape, field))
        elif type(patch_value) is list:
            field = _field(shape, key)
            if deleting or _strategy(field) == "merge":
                merged[key] = _merge_list(
                    live_value, patch_value, field, _element_shape(shape, field), deleting=deleting
                )
            else:
                merged[key] = patch_value
        else:
            merged[key] = patch_value
    return merged


def _merge_map_field(live_value: Tree, patch_value: Tree, field: Field | None, inner: TypeShape) -> Tree:
    return patch_value if _strategy(field) == "replace" else _merge_map(live_value, patch_value, inner)


def _apply_directive(patch: Tree) -> Tree:
    directive = patch[DIRECTIVE]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    raise _unknown_directive(patch)


def _set(merged: Tree, key: str, value: Any) -> None:
    kept, value = _without_directives(value)
    if kept:
        merged[key] = value
    else:
        merged.pop(key, None)


def _without_directives(value: Any) -> tuple[bool, Any]:
    """Whether a new value remains, and the value without the maps that contain a directive."""
    if type(value) is dict:
        if DIRECTIVE in value:
            return False, None
        inner = {key: _without_directives(item) for key, item in value.items()}
        return True, {key: item for key, (kept, item) in inner.items() if kept}
    if type(value) is list:
        return True, [item for kept, item in map(_without_directives, value) if kept]
    return True, value


def _retain_keys(merged: Tree, patch: Tree) -> None:
    retained = patch[RETAIN_KEYS]
    malformed = bad_request("invalid patch format of retainKeys")
    if type(retained) is not list:
        raise malformed
    names = {name for name in retained if type(name) is str}
    for key, value in patch.items():
        if key == RETAIN_KEYS or value is None or key.startswith((DELETE_FROM_LIST, SET_ORDER)):
            continue
        if key not in names:
            raise malformed
    for key in [key for key in merged if key not in names]:
        del merged[key]


# --- fields ------------------------------------------------------------------------------------------------------


def _field(shape: TypeShape, name: str) -> Field | None:
    """The field of a struct; None for the values of a map, which have no patch strategy."""
    if shape.form == "struct":
        field = shape.fields.get(name)
        if field is not None:
            return field
        raise unclassified(f'unable to find api field in struct {shape.bare_name} for the json field "{name}"')
    if shape.form == "map":
        return None
    raise unclassified(f"unable to find api field for the json field {name!r} in {shape.name}")


def _element_shape(shape: TypeShape, field: Field | None) -> TypeShape:
    """The shape of a map field, or of the elements of a list field."""
    inner = field.shape if field is not None else shape.element
    assert inner is not None
    if inner.form == "slice":
        assert inner.element is not None
        return inner.element
    return inner


def _strategy(field: Field | None) -> str:
    if field is None:
        return ""
    for strategy in field.strategies:
        if strategy != "retainKeys":
            return strategy
    return ""


# --- lists -------------------------------------------------------------------------------------------------------


def _merge_list(live: Items, patched: Items, field: Field | None, element: TypeShape, *, deleting: bool) -> Items:
    merge_key = field.merge_key if field is not None else ""
    if not live and not patched:
        return live
    if not _are_maps(live, patched):
        if deleting:
            deleted = set(map(_identity, patched))
            return [item for item in live if _identity(item) not in deleted]
        both = [*live, *patched]
        return _in_patch_order(
            list(dict(zip(map(_identity, both), both, strict=True)).values()), patched, live, merge_key
        )
    if not merge_key:
        raise unclassified(f"cannot merge lists without merge key for {element.form}")
    live, patched = _apply_item_directives(live, patched, merge_key)
    merged = list(live)
    indexes: dict[tuple[type, Any], int] = {}
    for index, item in enumerate(live):
        if merge_key in item:
            indexes.setdefault(_identity(item[merge_key]), index)
    for item in patched:
        identity = _identity(_merge_key_value(item, merge_key))
        position = indexes.get(identity)
        if position is None:
            indexes[identity] = len(merged)
            merged.append(item)  # a new item is added as it is, without a merge
        else:
            merged[position] = _merge_map(merged[position], item, element)
    return _in_patch_order(merged, patched, live, merge_key)


def _apply_item_directives(live: Items, patched: Items, merge_key: str) -> tuple[Items, Items]:
    """Apply the items with ``$patch`` and return the remaining live and patch items; replace drops all live items."""
    remaining: Items = []
    replace = False
    for item in patched:
        if DIRECTIVE not in item:
            remaining.append(item)
            continue
        directive = item[DIRECTIVE]
        if directive == "delete":
            deleted = _identity(_merge_key_value(item, merge_key))
            live = [item for item in live if merge_key not in item or _identity(item[merge_key]) != deleted]
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise unclassified("merging lists cannot yet be specified in the patch")
        else:
            raise _unknown_directive(item)
    return (remaining, []) if replace else (live, remaining)


def _are_maps(*lists: Items) -> bool:
    """Whether these are lists of maps and not of scalars; all items must have the same type."""
    first: type | None = None
    for items in lists:
        for item in items:
            if first is None:
                first = type(item)
                if first is list:
                    raise inapplicable()  # "lists of lists are not supported"
            elif type(item) is not first:
                raise unclassified(f"list element types are not identical: {format_value(list(lists))}")
    return first is dict


def _merge_key_value(item: Any, merge_key: str) -> Any:
    if merge_key not in item:
        raise unclassified(f"map: {format_value(item)} does not contain declared merge key: {merge_key}")
    return item[merge_key]


def _identity(value: Any) -> tuple[type, Any]:
    """A hashable key of a value: true is not 1, and lists and maps are compared by value."""
    return (type(value), format_value(value) if type(value) in (dict, list) else value)


# --- order -------------------------------------------------------------------------------------------------------


def _merge_ordered_lists(merged: Tree, patch: Tree, shape: TypeShape) -> set[str]:
    """Merge and sort every list with an order in the patch. Returns the names of these lists."""
    merged_lists: set[str] = set()
    for name, order in patch.items():
        if not name.startswith(SET_ORDER):
            continue
        if type(order) is not list:
            raise _wrong_type("[]interface {}", order)
        key = _list_name(name, SET_ORDER)
        live, patched = merged.get(key), patch.get(key)
        for items, given in ((live, key in merged), (patched, key in patch)):
            if given and type(items) is not list:
                raise _wrong_type("[]interface {}", items)
        field = _field(shape, key)
        merge_key = field.merge_key if field is not None else ""
        _check_order(patched or [], order, merge_key)
        if live is None and patched is None:
            continue
        merged_lists.add(key)
        if patched is None:
            items = live
        elif live is None:
            items = _without_directives(patched)[1]
        elif _strategy(field) == "merge":
            items = _merge_list(live, patched, field, _element_shape(shape, field), deleting=False)
        else:
            items = patched
        assert items is not None
        if not live and not patched:
            raise unclassified("no elements in any of the given slices")
        merged[key] = _in_patch_order(items, order, live or [], merge_key)
    return merged_lists


def _check_order(patched: Items, order: Items, merge_key: str) -> None:
    """Raise StatusError unless the patch's items are in the given order."""
    if not order or not patched:
        return
    remaining = [item for item in patched if type(item) is not dict or DIRECTIVE not in item]
    position = 0
    for item in order:
        if position == len(remaining):
            return
        if _order_key(remaining[position], merge_key) == _order_key(item, merge_key):
            position += 1
    if position < len(remaining):
        raise unclassified(
            f"The order in patch list:\n{format_value(patched)}\n doesn't match {SET_ORDER} list:\n"
            f"{format_value(order)}\n"
        )


def _order_key(item: Any, merge_key: str) -> tuple[type, Any]:
    if not merge_key:
        return _identity(item)
    if type(item) is not dict:
        raise _wrong_type("map[string]interface {}", item)
    return _identity(_merge_key_value(item, merge_key))


def _in_patch_order(items: Items, order: Items, live: Items, merge_key: str) -> Items:
    """Items in ``order`` in that order; each other item before the next item that it precedes in ``live``."""
    order_positions = _positions(order, merge_key)
    live_positions = _positions(live, merge_key)
    keyed = [(_order_key(item, merge_key), item) for item in items]
    named = sorted((pair for pair in keyed if pair[0] in order_positions), key=lambda pair: order_positions[pair[0]])
    unnamed = sorted(
        (pair for pair in keyed if pair[0] not in order_positions), key=lambda pair: live_positions.get(pair[0], -1)
    )
    result: Items = []
    left = right = 0
    while left < len(unnamed) and right < len(named):
        other_position, named_position = live_positions.get(unnamed[left][0]), live_positions.get(named[right][0])
        if other_position is not None and named_position is not None and other_position < named_position:
            result.append(unnamed[left][1])
            left += 1
        else:
            result.append(named[right][1])
            right += 1
    result += [item for _, item in unnamed[left:]]
    result += [item for _, item in named[right:]]
    return result


def _positions(items: Items, merge_key: str) -> dict[tuple[type, Any], int]:
    """The first position of each key."""
    return {_order_key(item, merge_key): index for index, item in reversed(list(enumerate(items)))}


# --- errors -------------------------------------------------------------------------------------------------------


def _list_name(name: str, prefix: str) -> str:
    head, _, list_name = name.partition("/")
    if head != prefix or not list_name:
        directive = "primitive" if prefix == DELETE_FROM_LIST else "setElementOrder"
        raise bad_request(f"invalid patch format of {directive} list")
    return list_name


def _unknown_directive(patch: Tree) -> StatusError:
    return unclassified(f"unknown patch type: {format_value(patch[DIRECTIVE])} in map: {format_value(patch)}")


def _wrong_type(expected: str, value: Any) -> StatusError:
    return unclassified(f"expected a {expected}, but received a {_GO_TYPES.get(type(value), '%!s(<nil>)')}")
