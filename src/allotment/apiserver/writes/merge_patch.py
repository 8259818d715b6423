"""JSON merge patch (RFC 7386) as the API server applies it: nulls remove, maps merge, other values replace.

The arguments are not modified, and unpatched values are the same objects afterwards, so that later steps can skip them.
As upstream, nulls of maps within lists are dropped too if the map or list is new.
"""

from __future__ import annotations

from typing import Any

from allotment.apiserver.writes.patch_errors import bad_request
from allotment.model.trees import Tree

_JSON_TYPES = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}


def apply_merge_patch(tree: Tree, patch: Any) -> Tree:
    """The patched object."""
    if type(patch) is not dict:
        if patch is None:
            raise bad_request("Invalid JSON Patch")
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {_JSON_TYPES[type(patch)]} into Go value of type "
            "map[string]interface {}"
        )
    return _merge(tree, patch)


def _merge(tree: Tree, patch: Tree) -> Tree:
    result = tree
    for key, patch_value in patch.items():
        current = result.get(key)
        if patch_value is None:
            if key not in result:
                continue
            new_value = None
        elif type(patch_value) is dict and type(current) is dict:
            new_value = _merge(current, patch_value)
            if new_value is current:
                continue
        else:
            new_value = without_nulls(patch_value)
            if new_value == current and type(new_value) is type(current):
                continue
        if result is tree:
            result = dict(tree)
        if patch_value is None:
            del result[key]
        else:
            result[key] = new_value
    return result


def without_nulls(value: Any) -> Any:
    """A value without the null members of its maps, at any depth; nulls in lists stay."""
    if type(value) is dict:
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if type(value) is list:
        return [without_nulls(item) for item in value]
    return value
