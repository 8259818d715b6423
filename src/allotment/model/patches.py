"""Patches written for v1 of ``resource.k8s.io``, as an older version of the same object needs them.

Merge, strategic and apply patches are parts of an object, and the lists in which versions differ are replaced whole: so
they are converted as objects are. A JSON patch names places, and some of v1 are several in v1beta1.
"""

from __future__ import annotations

from typing import Any, Final

from allotment.model.trees import Tree
from allotment.model.versions import HUB, from_v1

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
