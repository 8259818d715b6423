"""Strategic merge patch: a merge patch that knows which lists are maps by a key and which are sets.

The field says how it merges: ``patchStrategy: merge`` with a merge key (lists of maps) or without (sets of scalars),
``retainKeys``, or nothing, which replaces. The patch may steer with ``$patch`` (``delete``, ``replace``),
``$retainKeys``, ``$deleteFromPrimitiveList/NAME`` and ``$setElementOrder/NAME``. Order after a merge: what the patch
names stands as the patch orders it, the rest as it stood, interleaved as in the live list (Kubernetes' preserve-order
design).

Nothing given is changed. Where two of the errors below apply, the real server tells one at random, for it walks a Go
map; here it is the first as written.
"""

from __future__ import annotations

from typing import Any, Final

from allotment.apiserver.writes.go_maps import shown
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


def apply_strategic(tree: Tree, patch: Any, shape: TypeShape | None) -> Tree:
    """The patched object. Kinds without a compiled type (``shape`` None) do not know this form of patch."""
    if shape is None:
        raise bad_request("strategic merge patch format is not supported")
    if type(patch) is not dict:
        if patch is None:
            return tree
        word = {list: "array", str: "string", bool: "bool"}.get(type(patch), "number")
        raise bad_request(f"json: cannot unmarshal {word} into Go value of type map[string]interface {{}}")
    return _map(tree, patch, shape)


# --- maps --------------------------------------------------------------------------------------------------------


def _map(tree: Tree, patch: Tree, shape: TypeShape) -> Tree:
    if DIRECTIVE in patch:
        return _directed(patch)
    merged = dict(tree)
    if RETAIN_KEYS in patch:
        _retain(merged, patch)
    done = _ordered_lists(merged, patch, shape)
    for written, wanted in patch.items():
        if written in done or written == RETAIN_KEYS or written.startswith(SET_ORDER):
            continue
        deleting = written.startswith(DELETE_FROM_LIST)
        key = _list_name(written, DELETE_FROM_LIST) if deleting else written
        present: Any = merged.get(key)
        if wanted is None:
            merged.pop(key, None)
        elif key not in merged or type(present) is not type(wanted):
            if not deleting:
                _put(merged, key, without_nulls(wanted))
        elif type(wanted) is dict:
            field = _field(shape, key)
            merged[key] = _patched_map(present, wanted, field, _inner(shape, field))
        elif type(wanted) is list:
            field = _field(shape, key)
            if deleting or _strategy(field) == "merge":
                merged[key] = _list(present, wanted, field, _inner(shape, field), deleting=deleting)
            else:
                merged[key] = wanted
        else:
            merged[key] = wanted
    return merged


def _patched_map(present: Tree, wanted: Tree, field: Field | None, inner: TypeShape) -> Tree:
    return wanted if _strategy(field) == "replace" else _map(present, wanted, inner)


def _directed(patch: Tree) -> Tree:
    directive = patch[DIRECTIVE]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    raise _unknown_directive(patch)


def _put(merged: Tree, key: str, value: Any) -> None:
    kept, value = _without_directives(value)
    if kept:
        merged[key] = value
    else:
        merged.pop(key, None)


def _without_directives(value: Any) -> tuple[bool, Any]:
    """What a patch leaves where nothing stood: maps that carry a directive vanish. Also whether it stays at all."""
    if type(value) is dict:
        if DIRECTIVE in value:
            return False, None
        inner = {key: _without_directives(item) for key, item in value.items()}
        return True, {key: item for key, (kept, item) in inner.items() if kept}
    if type(value) is list:
        return True, [item for kept, item in map(_without_directives, value) if kept]
    return True, value


def _retain(merged: Tree, patch: Tree) -> None:
    wanted = patch[RETAIN_KEYS]
    malformed = bad_request("invalid patch format of retainKeys")
    if type(wanted) is not list:
        raise malformed
    names = {name for name in wanted if type(name) is str}
    for key, value in patch.items():
        if key == RETAIN_KEYS or value is None or key.startswith((DELETE_FROM_LIST, SET_ORDER)):
            continue
        if key not in names:
            raise malformed
    for key in [key for key in merged if key not in names]:
        del merged[key]


# --- fields ------------------------------------------------------------------------------------------------------


def _field(shape: TypeShape, name: str) -> Field | None:
    """How a field merges; None within maps, whose values have no say of their own."""
    if shape.form == "struct":
        field = shape.fields.get(name)
        if field is not None:
            return field
        raise unclassified(f'unable to find api field in struct {shape.bare_name} for the json field "{name}"')
    if shape.form == "map":
        return None
    raise unclassified(f"unable to find api field for the json field {name!r} in {shape.name}")


def _inner(shape: TypeShape, field: Field | None) -> TypeShape:
    """The shape of a map field itself, of a list field its elements."""
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


def _list(present: Items, wanted: Items, field: Field | None, element: TypeShape, *, deleting: bool) -> Items:
    merge_key = field.merge_key if field is not None else ""
    if not present and not wanted:
        return present
    if not _are_maps(present, wanted):
        if deleting:
            unwanted = set(map(_identity, wanted))
            return [item for item in present if _identity(item) not in unwanted]
        both = [*present, *wanted]
        return _arranged(list(dict(zip(map(_identity, both), both, strict=True)).values()), wanted, present, merge_key)
    if not merge_key:
        raise unclassified(f"cannot merge lists without merge key for {element.form}")
    present, wanted = _without_special_items(present, wanted, merge_key)
    merged = list(present)
    places: dict[tuple[type, Any], int] = {}
    for index, item in enumerate(present):
        if merge_key in item:
            places.setdefault(_identity(item[merge_key]), index)
    for item in wanted:
        identity = _identity(_key_of(item, merge_key))
        place = places.get(identity)
        if place is None:
            places[identity] = len(merged)
            merged.append(item)  # as written: what it holds is merged with nothing
        else:
            merged[place] = _map(merged[place], item, element)
    return _arranged(merged, wanted, present, merge_key)


def _without_special_items(present: Items, wanted: Items, merge_key: str) -> tuple[Items, Items]:
    """The items that carry ``$patch`` take effect here: deletions at once, one replacement empties what there was."""
    plain: Items = []
    replace = False
    for item in wanted:
        if DIRECTIVE not in item:
            plain.append(item)
            continue
        directive = item[DIRECTIVE]
        if directive == "delete":
            gone = _identity(_key_of(item, merge_key))
            present = [item for item in present if merge_key not in item or _identity(item[merge_key]) != gone]
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise unclassified("merging lists cannot yet be specified in the patch")
        else:
            raise _unknown_directive(item)
    return (plain, []) if replace else (present, plain)


def _are_maps(*lists: Items) -> bool:
    """Whether these are lists of maps (or of scalars); they must all be alike."""
    first: type | None = None
    for items in lists:
        for item in items:
            if first is None:
                first = type(item)
                if first is list:
                    raise inapplicable()  # "lists of lists are not supported"
            elif type(item) is not first:
                raise unclassified(f"list element types are not identical: {shown(list(lists))}")
    return first is dict


def _key_of(item: Any, merge_key: str) -> Any:
    if merge_key not in item:
        raise unclassified(f"map: {shown(item)} does not contain declared merge key: {merge_key}")
    return item[merge_key]


def _identity(value: Any) -> tuple[type, Any]:
    """A value as a key: true is not 1, and lists and maps are told by their content."""
    return (type(value), shown(value) if type(value) in (dict, list) else value)


# --- order -------------------------------------------------------------------------------------------------------


def _ordered_lists(merged: Tree, patch: Tree, shape: TypeShape) -> set[str]:
    """Merge every list that the patch gives an order for, and put it in that order. Returns the lists done."""
    done: set[str] = set()
    for written, order in patch.items():
        if not written.startswith(SET_ORDER):
            continue
        if type(order) is not list:
            raise _wrong_type("[]interface {}", order)
        key = _list_name(written, SET_ORDER)
        present, wanted = merged.get(key), patch.get(key)
        for items, known in ((present, key in merged), (wanted, key in patch)):
            if known and type(items) is not list:
                raise _wrong_type("[]interface {}", items)
        field = _field(shape, key)
        merge_key = field.merge_key if field is not None else ""
        _check_order(wanted or [], order, merge_key)
        if present is None and wanted is None:
            continue
        done.add(key)
        if wanted is None:
            items = present
        elif present is None:
            items = _without_directives(wanted)[1]
        elif _strategy(field) == "merge":
            items = _list(present, wanted, field, _inner(shape, field), deleting=False)
        else:
            items = wanted
        assert items is not None
        if not present and not wanted:
            raise unclassified("no elements in any of the given slices")
        merged[key] = _arranged(items, order, present or [], merge_key)
    return done


def _check_order(wanted: Items, order: Items, merge_key: str) -> None:
    """What the patch holds must stand in the order's sequence."""
    if not order or not wanted:
        return
    plain = [item for item in wanted if type(item) is not dict or DIRECTIVE not in item]
    place = 0
    for item in order:
        if place == len(plain):
            return
        if _order_key(plain[place], merge_key) == _order_key(item, merge_key):
            place += 1
    if place < len(plain):
        raise unclassified(
            f"The order in patch list:\n{shown(wanted)}\n doesn't match {SET_ORDER} list:\n{shown(order)}\n"
        )


def _order_key(item: Any, merge_key: str) -> tuple[type, Any]:
    if not merge_key:
        return _identity(item)
    if type(item) is not dict:
        raise _wrong_type("map[string]interface {}", item)
    return _identity(_key_of(item, merge_key))


def _arranged(items: Items, order: Items, live: Items, merge_key: str) -> Items:
    """Items named in ``order`` in that order; the others as in ``live``, each before the next one it preceded there."""
    ranks = _ranks(order, merge_key)
    live_ranks = _ranks(live, merge_key)
    keyed = [(_order_key(item, merge_key), item) for item in items]
    named = sorted((pair for pair in keyed if pair[0] in ranks), key=lambda pair: ranks[pair[0]])
    others = sorted((pair for pair in keyed if pair[0] not in ranks), key=lambda pair: live_ranks.get(pair[0], -1))
    arranged: Items = []
    left = right = 0
    while left < len(others) and right < len(named):
        mine, theirs = live_ranks.get(others[left][0]), live_ranks.get(named[right][0])
        if mine is not None and theirs is not None and mine < theirs:
            arranged.append(others[left][1])
            left += 1
        else:
            arranged.append(named[right][1])
            right += 1
    arranged += [item for _, item in others[left:]]
    arranged += [item for _, item in named[right:]]
    return arranged


def _ranks(items: Items, merge_key: str) -> dict[tuple[type, Any], int]:
    """The first place of each key."""
    return {_order_key(item, merge_key): index for index, item in reversed(list(enumerate(items)))}


# --- refusals ----------------------------------------------------------------------------------------------------


def _list_name(written: str, prefix: str) -> str:
    head, _, name = written.partition("/")
    if head != prefix or not name:
        what = "primitive" if prefix == DELETE_FROM_LIST else "setElementOrder"
        raise bad_request(f"invalid patch format of {what} list")
    return name


def _unknown_directive(patch: Tree) -> StatusError:
    return unclassified(f"unknown patch type: {shown(patch[DIRECTIVE])} in map: {shown(patch)}")


def _wrong_type(wanted: str, found: Any) -> StatusError:
    return unclassified(f"expected a {wanted}, but received a {_GO_TYPES.get(type(found), '%!s(<nil>)')}")
