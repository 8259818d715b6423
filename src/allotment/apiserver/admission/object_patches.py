"""Applies the JSON patches of webhooks and policies, with the errors of the library that kube-apiserver uses."""

from __future__ import annotations

from typing import Any, Final

from allotment.apiserver.admission.attributes import Attributes
from allotment.apiserver.served_kinds import api_version, shape_in
from allotment.apiserver.writes.json_patch import apply_json_patch
from allotment.cluster.errors import StatusError
from allotment.model.fields import shape_of
from allotment.model.strict_decoding import StrictlyDecoded, strict_decode
from allotment.model.trees import Tree

_OPERATIONS: Final = ("add", "copy", "move", "remove", "replace", "test")


class PatchFailed(Exception):
    """Raised if an operation does not apply, with the reason. ``is_test``: it is a failed test."""

    def __init__(self, reason: str, *, is_test: bool) -> None:
        super().__init__(reason)
        self.is_test = is_test


def patched(tree: Tree, operations: list[Any]) -> Tree:
    """The patched object. Raises PatchFailed, or StatusError if the operations are no patch."""
    try:
        return apply_json_patch(tree, operations)
    except StatusError:
        for operation in operations:
            try:
                tree = apply_json_patch(tree, [operation])
            except StatusError:
                is_test = isinstance(operation, dict) and operation.get("op") == "test"
                raise PatchFailed(_reason(tree, operation), is_test=is_test) from None
        raise


def decoded(tree: Tree, before: Tree, attributes: Attributes, version: str) -> StrictlyDecoded:
    """A changed object of a request, without unknown fields, and its violations of the schema."""
    kind = attributes.kind
    if attributes.body_kind is not None:
        written, name = attributes.body_kind
        body_shape = shape_of(written, name)
        assert body_shape is not None, "bodies of requests are of known kinds"
        return strict_decode(tree, written, name, body_shape, exact=True, previous=before)
    shape = shape_in(kind, version)
    return strict_decode(tree, api_version(kind, version), kind.kind, shape, exact=True, previous=before)


def _reason(tree: Tree, operation: Any) -> str:
    kind = str(operation.get("op") if isinstance(operation, dict) else "")
    if kind not in _OPERATIONS:
        return f"Unexpected kind: {kind}"
    path, source = str(operation.get("path")), str(operation.get("from"))
    if kind == "test":
        return f"testing value {path} failed: test failed"
    if kind in ("copy", "move") and _container(tree, source) is None:
        return f"{kind} operation does not apply: doc is missing from path: {source}: missing value"
    container = _container(tree, path)
    if container is None:
        shown = f'"{path}"' if kind in ("add", "remove") else path
        destination = "destination path" if kind in ("copy", "move") else "path"
        return f"{kind} operation does not apply: doc is missing {destination}: {shown}: missing value"
    last = path.rpartition("/")[2]
    if isinstance(container, list):
        problem = f"Unable to access invalid index: {last}: invalid index referenced"
    else:
        problem = f"Unable to remove nonexistent key: {last}: missing value"
    return f"error in {kind} for path: '{path}': {problem}"


def _container(tree: Any, path: str) -> Any:
    """The object or list that contains the last part of a path; None if there is none."""
    for part in path.split("/")[1:-1]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(tree, list):
            index = int(key) if key.isdigit() else len(tree)
            tree = tree[index] if index < len(tree) else None
        else:
            tree = tree.get(key) if isinstance(tree, dict) else None
    return tree if isinstance(tree, (dict, list)) else None
