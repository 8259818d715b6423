"""Converts trees between the versions of ``resource.k8s.io``: every version to v1, the hub, and back.

v1 and v1beta2 are the same. v1beta1 has a request's fields next to its name instead of under ``exactly``, and a
device's fields under ``basic``; its unset strings and booleans are empty, not absent. v1alpha3, as served by Kubernetes
1.31 to 1.33, is v1beta1 with bare quantities as capacities. Trees are never changed, only shared or copied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from allotment.model.fields import GROUP
from allotment.model.trees import Tree

#: The path of the list whose items differ between versions, by kind.
_LISTS: Final = {
    "ResourceClaim": ("spec", "devices", "requests"),
    "ResourceClaimTemplate": ("spec", "spec", "devices", "requests"),
    "ResourceSlice": ("spec", "devices"),
}


def patch_from_v1(patch: Any, kind: str, api_version: str) -> Any:
    """Convert a patch of an object of ``kind`` to another version.

    Raises ValueError for an operation of a JSON patch that has no single path there.

    >>> op = {"op": "replace", "path": "/spec/devices/requests/0/exactly/count", "value": 2}
    >>> patch_from_v1([op], "ResourceClaim", "resource.k8s.io/v1beta1")[0]["path"]
    '/spec/devices/requests/0/count'
    """
    if isinstance(patch, dict):
        return _convert_partial(patch, kind, api_version)
    if not isinstance(patch, list) or not api_version.endswith("/v1beta1") or kind not in _LISTS:
        return patch
    return [_convert_operation(operation, kind, api_version) for operation in patch]


def _convert_partial(patch: Tree, kind: str, api_version: str) -> Tree:
    """Convert a partial object. Unset fields stay unset, and fields set to null stay null."""
    converted = from_v1({**patch, "kind": kind, "apiVersion": HUB}, api_version)
    part = {key: converted[key] for key in patch if key in converted}
    if "apiVersion" in patch:
        part["apiVersion"] = api_version
    # The conversion drops an empty node name of a slice; in a patch it must be kept.
    if kind == "ResourceSlice" and isinstance(spec := patch.get("spec"), dict):
        part["spec"] = {**spec, **part["spec"]}
    return part


def _convert_operation(operation: Tree, kind: str, api_version: str) -> Tree:
    converted = {**operation, "path": _convert_path(operation["path"], kind)}
    if "from" in operation:
        converted["from"] = _convert_path(operation["from"], kind)
    if "value" in operation:
        converted["value"] = _convert_value(operation["value"], operation["path"], kind, api_version)
    return converted


def _convert_path(path: str, kind: str) -> str:
    list_path = _LISTS[kind]
    names = path.split("/")[1:]
    rest_of_path = names[len(list_path) + 1 :]
    if tuple(names[: len(list_path)]) != list_path or not rest_of_path:
        return path
    if kind == "ResourceSlice":
        rest_of_path = rest_of_path if rest_of_path[0] == "name" else ["basic", *rest_of_path]
    elif rest_of_path == ["exactly"]:
        raise ValueError(f"{path}: before v1beta2 these fields are not nested: patch each field, or the whole request")
    elif rest_of_path[0] == "exactly":
        rest_of_path = rest_of_path[1:]
    return "/" + "/".join((*names[: len(list_path) + 1], *rest_of_path))


def _convert_value(value: Any, path: str, kind: str, api_version: str) -> Any:
    """Convert the value at a path: an item of the list, or an ancestor of it; other values are the same everywhere."""
    list_path = _LISTS[kind]
    names = tuple(path.split("/")[1:]) if path else ()
    item = len(names) == len(list_path) + 1 and names[:-1] == list_path
    if not item and names != list_path[: len(names)]:
        return value
    tree: Any = [value] if item else value
    steps = list_path if item else names
    for name in reversed(steps):
        tree = {name: tree}
    if not isinstance(tree, dict) or value is None:
        return value
    converted: Any = _convert_partial(tree, kind, api_version)
    for name in steps:
        converted = converted[name]
    return converted[0] if item else converted


Conversions: TypeAlias = dict[str, Callable[[Tree], Tree]]

HUB: Final = f"{GROUP}/v1"
VERSIONS: Final = ("v1", "v1beta2", "v1beta1", "v1alpha3")
# Served in alpha and beta versions only, with the same fields in all of them.
ONLY_BEFORE_V1: Final = frozenset({"ResourcePoolStatusRequest"})

_FLAT_FIELDS: Final = (
    "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity",
    "derivedAttributes",
)  # fmt: skip
# Fields of v1alpha3 for classic DRA controllers, which are no longer used.
_DROPPED_SPEC: Final = {"ResourceClaim": ("controller",), "DeviceClass": ("suitableNodes",)}


def to_v1(tree: Tree) -> Tree:
    """Convert an object to v1, including ``apiVersion``. Other groups and kinds without v1 are unchanged."""
    return _convert(tree, tree.get("apiVersion"), HUB, _TO_V1)


def from_v1(tree: Tree, api_version: str) -> Tree:
    """Convert a v1 object to another version, as the API server returns it to a client of that version."""
    if api_version.partition("/")[0] != GROUP or api_version.partition("/")[2] not in VERSIONS:
        raise ValueError(f"{api_version} is not a version of {GROUP}")
    return _convert(tree, api_version, api_version, _FROM_V1)


def _convert(tree: Tree, version: Any, target: str, table: dict[str, Conversions]) -> Tree:
    kind = tree.get("kind")
    if not isinstance(version, str) or version.partition("/")[0] != GROUP or kind in ONLY_BEFORE_V1:
        return tree
    convert = table.get(version.partition("/")[2], {}).get(str(kind))
    return {**(convert(tree) if convert else tree), "apiVersion": target}


# --- claims and templates ----------------------------------------------------------------------------------------


def _claim_to_v1(tree: Tree) -> Tree:
    return _map_at(tree, ("spec", "devices", "requests"), _map_items(_request_to_v1))


def _claim_from_v1(tree: Tree) -> Tree:
    return _map_at(tree, ("spec", "devices", "requests"), _map_items(_request_from_v1))


def _template_to_v1(tree: Tree) -> Tree:
    return _map_at(tree, ("spec",), _claim_to_v1)


def _template_from_v1(tree: Tree) -> Tree:
    return _map_at(tree, ("spec",), _claim_from_v1)


def _request_to_v1(request: Tree) -> Tree:
    flat = {name: request[name] for name in _FLAT_FIELDS if name in request}
    rest = {name: value for name, value in request.items() if name not in flat}
    # In v1beta1 empty strings and zero are unset; empty lists and objects are not.
    if any(value not in ("", 0) or value is False for value in flat.values()):
        name = {"name": rest.pop("name")} if "name" in rest else {}
        return {**name, "exactly": flat, **rest}
    return rest


def _request_from_v1(request: Tree) -> Tree:
    name = {"name": request["name"]} if "name" in request else {}
    # v1beta1 cannot omit the class name. Unknown fields stay next to the name.
    rest = {field: value for field, value in request.items() if field not in ("name", "exactly")}
    return {**name, "deviceClassName": "", **(request.get("exactly") or {}), **rest}


# --- slices ------------------------------------------------------------------------------------------------------


def _slice_to_v1(tree: Tree) -> Tree:
    return _map_at(tree, ("spec",), lambda spec: _map_at(_without_unset(spec), ("devices",), _map_items(_device_to_v1)))


def _slice_from_v1(tree: Tree) -> Tree:
    return _map_at(
        tree, ("spec",), lambda spec: _map_at(_without_unset(spec), ("devices",), _map_items(_device_from_v1))
    )


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


# --- v1alpha3 ----------------------------------------------------------------------------------------------------


def _old_to_v1(convert: Callable[[Tree], Tree]) -> Callable[[Tree], Tree]:
    def converted(tree: Tree) -> Tree:
        kind = str(tree.get("kind"))
        dropped = _DROPPED_SPEC.get(kind, ())
        tree = _map_at(
            tree, ("spec",), lambda spec: {name: value for name, value in spec.items() if name not in dropped}
        )
        if kind == "ResourceClaimTemplate":
            tree = _map_at(tree, ("spec", "spec"), lambda spec: _without(spec, "controller"))
        tree = _map_at(tree, ("status",), lambda status: _without(status, "deallocationRequested"))
        tree = _map_at(tree, ("status", "allocation"), lambda allocation: _without(allocation, "controller"))
        tree = _map_at(
            tree, ("spec", "devices"), _map_items(_capacity_as_values) if kind == "ResourceSlice" else _unchanged
        )
        return convert(tree)

    return converted


def _old_slice_from_v1(tree: Tree) -> Tree:
    return _map_at(_slice_from_v1(tree), ("spec", "devices"), _map_items(_capacity_as_quantities))


def _capacity_as_values(device: Tree) -> Tree:
    return _map_at(device, ("basic", "capacity"), lambda capacity: {name: {"value": q} for name, q in capacity.items()})


def _capacity_as_quantities(device: Tree) -> Tree:
    return _map_at(
        device,
        ("basic", "capacity"),
        lambda capacity: {name: entry.get("value", "0") for name, entry in capacity.items()},
    )


# --- trees -------------------------------------------------------------------------------------------------------


def _unchanged(value: Any) -> Any:
    return value


def _without(tree: Tree, *names: str) -> Tree:
    return {name: value for name, value in tree.items() if name not in names}


def _map_at(tree: Tree, path: tuple[str, ...], change: Callable[[Any], Any]) -> Tree:
    """``tree`` with the value at ``path`` changed; unchanged if there is no value at ``path``."""
    name, *rest = path
    value = tree.get(name)
    if value is None:
        return tree
    changed = _map_at(value, tuple(rest), change) if rest else change(value)
    return tree if changed is value else {**tree, name: changed}


def _map_items(change: Callable[[Tree], Tree]) -> Callable[[list[Tree]], list[Tree]]:
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
        "DeviceClass": _old_to_v1(_unchanged),
    },
}
_FROM_V1: Final[dict[str, Conversions]] = {
    "v1beta1": _V1BETA1_FROM_V1,
    "v1alpha3": {**_V1BETA1_FROM_V1, "ResourceSlice": _old_slice_from_v1},
}
