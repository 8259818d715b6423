"""JSON merge patch (RFC 7386) as the API server applies it: nulls remove, maps merge, everything else replaces.

Nothing given is changed, and what the patch leaves alone is the same value afterwards, so that later steps can skip
it. One leniency is upstream's: where a map or list is new, nulls of maps within lists are dropped too.
"""

from __future__ import annotations

from typing import Any

from allotment.apiserver.writes.patch_errors import bad_request
from allotment.model.trees import Tree

_WORDS = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}


def apply_merge_patch(tree: Tree, patch: Any) -> Tree:
    """The patched object."""
    if type(patch) is not dict:
        if patch is None:
            raise bad_request("Invalid JSON Patch")
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {_WORDS[type(patch)]} into Go value of type "
            "map[string]interface {}"
        )
    return _merged(tree, patch)


def _merged(tree: Tree, patch: Tree) -> Tree:
    result = tree
    for key, wanted in patch.items():
        present = result.get(key)
        if wanted is None:
            if key not in result:
                continue
            value = None
        elif type(wanted) is dict and type(present) is dict:
            value = _merged(present, wanted)
            if value is present:
                continue
        else:
            value = without_nulls(wanted)
            if value == present and type(value) is type(present):
                continue
        if result is tree:
            result = dict(tree)
        if wanted is None:
            del result[key]
        else:
            result[key] = value
    return result


def without_nulls(value: Any) -> Any:
    """A value without the null members of its maps, at any depth; nulls in lists stay."""
    if type(value) is dict:
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if type(value) is list:
        return [without_nulls(item) for item in value]
    return value
