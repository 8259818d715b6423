"""Between the versions of ``resource.k8s.io``: every version to v1, the hub, and back, on trees of plain values.

v1 and v1beta2 are the same. v1beta1 wrote a request's fields beside its name instead of under ``exactly``, and a
device's fields under ``basic``; its unset strings and booleans are empty, not absent. v1alpha3 as Kubernetes 1.31 to
1.33 served it is v1beta1 with bare quantities as capacities. Trees are never changed, only shared or rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from allotment.model.fields import GROUP
from allotment.model.trees import Tree

#: The list whose items differ, and in which field one version has what the other has beside the name.
_LISTS: Final = {
    "ResourceClaim": ("spec", "devices", "requests"),
    "ResourceClaimTemplate": ("spec", "spec", "devices", "requests"),
    "ResourceSlice": ("spec", "devices"),
}


def patch_from_v1(patch: Any, kind: str, api_version: str) -> Any:
    """A patch of any kind for an object of ``kind`` in another version.

    Raises ValueError for an operation of a JSON patch that has no single place there.

    >>> op = {"op": "replace", "path": "/spec/devices/requests/0/exactly/count", "value": 2}
    >>> patch_from_v1([op], "ResourceClaim", "resource.k8s.io/v1beta1")[0]["path"]
    '/spec/devices/requests/0/count'
    """
    if isinstance(patch, dict):
        return _part(patch, kind, api_version)
    if not isinstance(patch, list) or not api_version.endswith("/v1beta1") or kind not in _LISTS:
        return patch
    return [_operation(operation, kind, api_version) for operation in patch]


def _part(patch: Tree, kind: str, api_version: str) -> Tree:
    """A partial object; what it does not say of itself it does not say afterwards, and what it unsets it unsets."""
    whole = from_v1({**patch, "kind": kind, "apiVersion": HUB}, api_version)
    part = {key: whole[key] for key in patch if key in whole}
    if "apiVersion" in patch:
        part["apiVersion"] = api_version
    # A slice's empty node name is left out where an object is written; in a patch it is there to be written.
    if kind == "ResourceSlice" and isinstance(spec := patch.get("spec"), dict):
        part["spec"] = {**spec, **part["spec"]}
    return part


def _operation(operation: Tree, kind: str, api_version: str) -> Tree:
    converted = {**operation, "path": _path(operation["path"], kind)}
    if "from" in operation:
        converted["from"] = _path(operation["from"], kind)
    if "value" in operation:
        converted["value"] = _value(operation["value"], operation["path"], kind, api_version)
    return converted


def _path(path: str, kind: str) -> str:
    there = _LISTS[kind]
    names = path.split("/")[1:]
    inside = names[len(there) + 1 :]
    if tuple(names[: len(there)]) != there or not inside:
        return path
    if kind == "ResourceSlice":
        inside = inside if inside[0] == "name" else ["basic", *inside]
    elif inside == ["exactly"]:
        raise ValueError(f"{path}: before v1beta2 these fields have no place of their own: name each, or the request")
    elif inside[0] == "exactly":
        inside = inside[1:]
    return "/" + "/".join((*names[: len(there) + 1], *inside))


def _value(value: Any, path: str, kind: str, api_version: str) -> Any:
    """The value at a path: of a list's item, or of something that holds the list, or of what is alike anyway."""
    there = _LISTS[kind]
    names = tuple(path.split("/")[1:]) if path else ()
    item = len(names) == len(there) + 1 and names[:-1] == there
    if not item and names != there[: len(names)]:
        return value
    tree: Any = [value] if item else value
    steps = there if item else names
    for name in reversed(steps):
        tree = {name: tree}
    if not isinstance(tree, dict) or value is None:
        return value
    found: Any = _part(tree, kind, api_version)
    for name in steps:
        found = found[name]
    return found[0] if item else found


Conversions: TypeAlias = dict[str, Callable[[Tree], Tree]]

HUB: Final = f"{GROUP}/v1"
VERSIONS: Final = ("v1", "v1beta2", "v1beta1", "v1alpha3")
# It has the same shape wherever it is served, and has not come to v1.
ONLY_BEFORE_V1: Final = frozenset({"ResourcePoolStatusRequest"})

_FLAT_FIELDS: Final = (
    "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity",
)  # fmt: skip
# What v1alpha3 once had for classic controllers; nothing reads it any more.
_DROPPED_SPEC: Final = {"ResourceClaim": ("controller",), "DeviceClass": ("suitableNodes",)}


def to_v1(tree: Tree) -> Tree:
    """The object in its v1 shape. ``apiVersion`` becomes v1's for kinds that v1 has; other groups come back as is."""
    return _convert(tree, tree.get("apiVersion"), HUB, _TO_V1)


def from_v1(tree: Tree, api_version: str) -> Tree:
    """A v1 object in the shape of another version, as the API server would answer a client of that version."""
    if api_version.partition("/")[0] != GROUP or api_version.partition("/")[2] not in VERSIONS:
        raise ValueError(f"{api_version} is no version of {GROUP}")
    return _convert(tree, api_version, api_version, _FROM_V1)


def _convert(tree: Tree, version: Any, target: str, table: dict[str, Conversions]) -> Tree:
    kind = tree.get("kind")
    if not isinstance(version, str) or version.partition("/")[0] != GROUP or kind in ONLY_BEFORE_V1:
        return tree
    convert = table.get(version.partition("/")[2], {}).get(str(kind))
    return {**(convert(tree) if convert else tree), "apiVersion": target}


# --- claims and templates ----------------------------------------------------------------------------------------


def _claim_to_v1(tree: Tree) -> Tree:
    return _at(tree, ("spec", "devices", "requests"), _each(_request_to_v1))


def _claim_from_v1(tree: Tree) -> Tree:
    return _at(tree, ("spec", "devices", "requests"), _each(_request_from_v1))


def _template_to_v1(tree: Tree) -> Tree:
    return _at(tree, ("spec",), _claim_to_v1)


def _template_from_v1(tree: Tree) -> Tree:
    return _at(tree, ("spec",), _claim_from_v1)


def _request_to_v1(request: Tree) -> Tree:
    flat = {name: request[name] for name in _FLAT_FIELDS if name in request}
    rest = {name: value for name, value in request.items() if name not in flat}
    # Empty strings and zero are unset in v1beta1; empty lists and objects are not.
    if any(value not in ("", 0) or value is False for value in flat.values()):
        name = {"name": rest.pop("name")} if "name" in rest else {}
        return {**name, "exactly": flat, **rest}
    return rest


def _request_from_v1(request: Tree) -> Tree:
    name = {"name": request["name"]} if "name" in request else {}
    # v1beta1 has no way to leave the class name out. Fields that nobody here knows stay beside the name.
    rest = {field: value for field, value in request.items() if field not in ("name", "exactly")}
    return {**name, "deviceClassName": "", **(request.get("exactly") or {}), **rest}


# --- slices ------------------------------------------------------------------------------------------------------


def _slice_to_v1(tree: Tree) -> Tree:
    return _at(tree, ("spec",), lambda spec: _at(_without_unset(spec), ("devices",), _each(_device_to_v1)))


def _slice_from_v1(tree: Tree) -> Tree:
    return _at(tree, ("spec",), lambda spec: _at(_without_unset(spec), ("devices",), _each(_device_from_v1)))


def _without_unset(spec: Tree) -> Tree:
    return {
        name: value
        for name, value in spec.items()
        if not ((name == "nodeName" and value == "") or (name == "allNodes" and value is False))
    }


def _device_to_v1(device: Tree) -> Tree:
    basic = device.get("basic") or {}
    inner = {
        name: value for name, value in basic.items() if value or name not in ("attributes", "capacity")
    }  # empty maps become nil
    name = {"name": device["name"]} if "name" in device else {}
    return {**name, **inner}


def _device_from_v1(device: Tree) -> Tree:
    name = {"name": device["name"]} if "name" in device else {}
    return {**name, "basic": {field: value for field, value in device.items() if field != "name"}}


# --- v1alpha3 as it was ------------------------------------------------------------------------------------------


def _old_to_v1(convert: Callable[[Tree], Tree]) -> Callable[[Tree], Tree]:
    def converted(tree: Tree) -> Tree:
        kind = str(tree.get("kind"))
        dropped = _DROPPED_SPEC.get(kind, ())
        tree = _at(tree, ("spec",), lambda spec: {name: value for name, value in spec.items() if name not in dropped})
        if kind == "ResourceClaimTemplate":
            tree = _at(tree, ("spec", "spec"), lambda spec: _minus(spec, "controller"))
        tree = _at(tree, ("status",), lambda status: _minus(status, "deallocationRequested"))
        tree = _at(tree, ("status", "allocation"), lambda allocation: _minus(allocation, "controller"))
        tree = _at(tree, ("spec", "devices"), _each(_capacity_as_values) if kind == "ResourceSlice" else _same)
        return convert(tree)

    return converted


def _old_slice_from_v1(tree: Tree) -> Tree:
    return _at(_slice_from_v1(tree), ("spec", "devices"), _each(_capacity_as_quantities))


def _capacity_as_values(device: Tree) -> Tree:
    return _at(device, ("basic", "capacity"), lambda capacity: {name: {"value": q} for name, q in capacity.items()})


def _capacity_as_quantities(device: Tree) -> Tree:
    return _at(
        device,
        ("basic", "capacity"),
        lambda capacity: {name: entry.get("value", "0") for name, entry in capacity.items()},
    )


# --- trees -------------------------------------------------------------------------------------------------------


def _same(value: Any) -> Any:
    return value


def _minus(tree: Tree, *names: str) -> Tree:
    return {name: value for name, value in tree.items() if name not in names}


def _at(tree: Tree, path: tuple[str, ...], change: Callable[[Any], Any]) -> Tree:
    """``tree`` with the value at ``path`` changed; as it is where there is nothing at ``path``."""
    name, *rest = path
    value = tree.get(name)
    if value is None:
        return tree
    changed = _at(value, tuple(rest), change) if rest else change(value)
    return tree if changed is value else {**tree, name: changed}


def _each(change: Callable[[Tree], Tree]) -> Callable[[list[Tree]], list[Tree]]:
    return lambda items: [change(item) for item in items]


_V1BETA1_TO_V1: Final[Conversions] = {
    "ResourceClaim": _claim_to_v1,
    "ResourceClaimTemplate": _template_to_v1,
    "ResourceSlice": _slice_to_v1,
}
_V1BETA1_FROM_V1: Final[Conversions] = {
    "ResourceClaim": _claim_from_v1,
    "ResourceClaimTemplate": _template_from_v1,
    "ResourceSlice": _slice_from_v1,
}
_TO_V1: Final[dict[str, Conversions]] = {
    "v1beta1": _V1BETA1_TO_V1,
    "v1alpha3": {
        **{kind: _old_to_v1(convert) for kind, convert in _V1BETA1_TO_V1.items()},
        "DeviceClass": _old_to_v1(_same),
    },
}
_FROM_V1: Final[dict[str, Conversions]] = {
    "v1beta1": _V1BETA1_FROM_V1,
    "v1alpha3": {**_V1BETA1_FROM_V1, "ResourceSlice": _old_slice_from_v1},
}
