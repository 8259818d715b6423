"""JSON patch (RFC 6902) with the leniencies of the library that the API server uses.

These are: replacing an absent key adds it; indices may be negative (``-1`` is the last element) and have a sign or
leading zeros; the part of a path before the first ``/`` is ignored; a missing ``value`` is null; and a test for null
succeeds if the field is absent. All operations that do not fit the object get the same error, as from the real server.

The document is copied only along the paths of the operations; values of the patch are not modified.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from allotment.apiserver.writes.patch_errors import bad_request, inapplicable, too_large
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree
from allotment.model.validation.errors import invalid, invalid_status

Container = dict[str, Any] | list[Any]

MAX_OPERATIONS: Final = 10_000
#: The maximum size that the ``copy`` operations of one patch can add, as JSON.
MAX_COPIED_BYTES: Final = 3 * 1024 * 1024

_INDEX = re.compile(r"[+-]?[0-9]{1,18}\Z")
_OPERATION_FIELDS: Final = ("op", "path", "from", "value")
_JSON_TYPES = {dict: "object", list: "array", bool: "bool", int: "number", float: "number", str: "string"}


class _InapplicableError(Exception):
    """Raised for an operation that does not fit the object."""


def apply_json_patch(tree: Tree, operations: Any) -> Tree:
    """The patched object."""
    if operations is None:  # Go decodes null as an empty list
        return tree
    validate_operations(operations)
    document = _Document(tree)
    try:
        for operation in operations:
            apply = _APPLY.get(operation.get("op")) if operation else None
            if apply is None:
                raise _InapplicableError
            apply(document, operation)
    except _InapplicableError:
        raise inapplicable() from None
    root = document.root
    if type(root) is not dict:
        text = msgspec.json.encode(root).decode()
        detail = (
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct"
        )
        raise StatusError(invalid_status("", "", "", [invalid("patch", text, detail)]))
    return root


def validate_operations(operations: Any) -> None:
    """Raise StatusError unless the body is a list of at most MAX_OPERATIONS operations."""
    if type(operations) is not list:
        raise _undecodable(operations, "Go value of type []handlers.jsonPatchOp")
    for operation in operations:
        if operation is None:
            continue
        if type(operation) is not dict:
            raise _undecodable(operation, "Go value of type handlers.jsonPatchOp")
        for name in ("op", "path", "from"):
            value = operation.get(name)
            if type(value) is not str and value is not None:
                raise _undecodable(value, f"Go struct field jsonPatchOp.{name} of type string")
    if len(operations) > MAX_OPERATIONS:
        raise too_large(f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}")


def _undecodable(value: Any, expected: str) -> StatusError:
    json_type = _JSON_TYPES.get(type(value), "null")
    return bad_request(f"error decoding patch: json: cannot unmarshal {json_type} into {expected}")


def unknown_fields(operations: list[Any]) -> list[str]:
    """The messages of strict decoding about unknown fields of operations, for warnings or an error."""
    return [
        f'json patch unknown field "[{index}].{name}"'
        for index, operation in enumerate(operations)
        if type(operation) is dict
        for name in operation
        if name not in _OPERATION_FIELDS
    ]


class _Document:
    """A tree that is being patched. ``copies`` are the containers that were copied and can be modified, by id."""

    def __init__(self, tree: Tree) -> None:
        self.root: Any = tree
        self.copies: dict[int, Container] = {}
        self.copied_bytes = 0

    def parts(self, operation: Tree, name: str) -> list[str]:
        path = operation.get(name)
        if type(path) is not str:
            raise _InapplicableError
        parts = path.split("/")[1:]
        return [part.replace("~1", "/").replace("~0", "~") for part in parts]

    def container(self, parts: list[str], *, write: bool) -> Container:
        """The container of the last part; with ``write``, all containers on the path are copied first."""
        if not parts:
            raise _InapplicableError
        container: Any = self.root
        if write:
            container = self.root = self.writable(container)
        for part in parts[:-1]:
            if type(container) is list:
                key: Any = list_index(part, len(container), container)
                inner = container[key]
            else:
                key = part
                inner = container.get(part)
            if type(inner) is not dict and type(inner) is not list:
                raise _InapplicableError
            if write:
                inner = container[key] = self.writable(inner)
            container = inner
        result: Container = container
        return result

    def writable(self, container: Container) -> Container:
        if self.copies.get(id(container)) is container:
            return container
        copy = container.copy()
        self.copies[id(copy)] = copy
        return copy

    def get(self, parts: list[str]) -> Any:
        container = self.container(parts, write=False)
        if type(container) is list:
            return container[list_index(parts[-1], len(container), container)]
        assert type(container) is dict
        return container.get(parts[-1])

    def add(self, parts: list[str], value: Any) -> None:
        container = self.container(parts, write=True)
        key = parts[-1]
        if type(container) is dict:
            container[key] = value
        elif type(container) is list:
            if key == "-":
                container.append(value)
            else:
                container.insert(list_index(key, len(container) + 1, container), value)

    def remove(self, parts: list[str]) -> None:
        container = self.container(parts, write=True)
        if type(container) is dict:
            if parts[-1] not in container:
                raise _InapplicableError
            del container[parts[-1]]
        elif type(container) is list:
            del container[list_index(parts[-1], len(container), container)]


def list_index(part: str, length: int, container: Container) -> int:
    """A list index as upstream parses it: signed, counted from the end if negative."""
    if not _INDEX.match(part):
        raise _InapplicableError
    index = int(part)
    if index < 0:
        index += length
    if not 0 <= index < length:
        raise _InapplicableError
    return index


def _add(document: _Document, operation: Tree) -> None:
    document.add(document.parts(operation, "path"), operation.get("value"))


def _remove(document: _Document, operation: Tree) -> None:
    document.remove(document.parts(operation, "path"))


def _replace(document: _Document, operation: Tree) -> None:
    parts = document.parts(operation, "path")
    value = operation.get("value")
    if operation["path"] == "":
        if type(value) is not dict and type(value) is not list:
            raise _InapplicableError
        document.root = value
        return
    container = document.container(parts, write=True)
    if type(container) is list:
        container[list_index(parts[-1], len(container), container)] = value
    else:
        assert type(container) is dict
        container[parts[-1]] = value


def _move(document: _Document, operation: Tree) -> None:
    source = document.parts(operation, "from")
    value = document.get(source)
    document.remove(source)
    document.add(document.parts(operation, "path"), value)


def _copy(document: _Document, operation: Tree) -> None:
    value = document.get(document.parts(operation, "from"))
    encoded = msgspec.json.encode(value)
    document.copied_bytes += len(encoded)
    if document.copied_bytes > MAX_COPIED_BYTES:
        raise _InapplicableError
    document.add(document.parts(operation, "path"), msgspec.json.decode(encoded))


def _test(document: _Document, operation: Tree) -> None:
    expected = operation.get("value")
    value = document.root if operation.get("path") == "" else document.get(document.parts(operation, "path"))
    if not _json_equal(value, expected):
        raise _InapplicableError


def _json_equal(left: Any, right: Any) -> bool:
    """Whether two values are equal as JSON: true is not 1, and 1 is not 1.0."""
    if type(left) is not type(right):
        return False
    if type(left) is dict:
        return len(left) == len(right) and all(
            key in right and _json_equal(value, right[key]) for key, value in left.items()
        )
    if type(left) is list:
        return len(left) == len(right) and all(map(_json_equal, left, right))
    return bool(left == right)


_APPLY: Final[dict[str | None, Callable[[_Document, Tree], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
