"""JSON patch (RFC 6902) with the leniencies of the library that the API server uses.

These are: replacing a key that is absent adds it, indices may be negative (``-1`` is the last element) and written with
a sign or leading zeros, what stands before the first ``/`` of a path is ignored, a missing ``value`` is null, and a
test for null passes where there is nothing. All misfits are answered alike; the server does not say which it was.

The document is copied only along the paths that operations touch; values of the patch are never changed.
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

MOST_OPERATIONS: Final = 10_000
#: All that ``copy`` operations of one patch may add, as JSON.
MOST_COPIED_BYTES: Final = 3 * 1024 * 1024

_INDEX = re.compile(r"[+-]?[0-9]{1,18}\Z")
_KNOWN: Final = ("op", "path", "from", "value")
_WORDS = {dict: "object", list: "array", bool: "bool", int: "number", float: "number", str: "string"}


class _Misfit(Exception):
    """An operation does not apply."""


def apply_json_patch(tree: Tree, operations: Any) -> Tree:
    """The patched object."""
    check(operations)
    document = _Document(tree)
    try:
        for operation in operations:
            apply = _APPLY.get(operation.get("op")) if operation else None
            if apply is None:
                raise _Misfit
            apply(document, operation)
    except _Misfit:
        raise inapplicable() from None
    root = document.root
    if type(root) is not dict:
        text = msgspec.json.encode(root).decode()
        detail = (
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct"
        )
        raise StatusError(invalid_status("", "", "", [invalid("patch", text, detail)]))
    return root


def check(operations: Any) -> None:
    """That the body is a list of operations, and not too many."""
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
    if len(operations) > MOST_OPERATIONS:
        raise too_large(f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}")


def _undecodable(value: Any, wanted: str) -> StatusError:
    word = _WORDS.get(type(value), "null")
    return bad_request(f"error decoding patch: json: cannot unmarshal {word} into {wanted}")


def unknown_fields(operations: list[Any]) -> list[str]:
    """What strict decoding says of members that no operation has, for warnings or a refusal."""
    return [
        f'json patch unknown field "[{index}].{name}"'
        for index, operation in enumerate(operations)
        if type(operation) is dict
        for name in operation
        if name not in _KNOWN
    ]


class _Document:
    """A tree being changed: containers already copied are ours to write to."""

    def __init__(self, tree: Tree) -> None:
        self.root: Any = tree
        self.owned: dict[int, Container] = {}
        self.copied_bytes = 0

    def parts(self, operation: Tree, name: str) -> list[str]:
        path = operation.get(name)
        if type(path) is not str:
            raise _Misfit
        parts = path.split("/")[1:]
        return [part.replace("~1", "/").replace("~0", "~") for part in parts]

    def container(self, parts: list[str], *, write: bool) -> Container:
        """What holds the last part; every container on the way is made ours when it is to be written to."""
        if not parts:
            raise _Misfit
        here: Any = self.root
        if write:
            here = self.root = self.own(here)
        for part in parts[:-1]:
            if type(here) is list:
                key: Any = position(part, len(here), here)
                inner = here[key]
            else:
                key = part
                inner = here.get(part)
            if type(inner) is not dict and type(inner) is not list:
                raise _Misfit
            if write:
                inner = here[key] = self.own(inner)
            here = inner
        found: Container = here
        return found

    def own(self, container: Container) -> Container:
        if self.owned.get(id(container)) is container:
            return container
        copy = container.copy()
        self.owned[id(copy)] = copy
        return copy

    def get(self, parts: list[str]) -> Any:
        container = self.container(parts, write=False)
        if type(container) is list:
            return container[position(parts[-1], len(container), container)]
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
                container.insert(position(key, len(container) + 1, container), value)

    def remove(self, parts: list[str]) -> None:
        container = self.container(parts, write=True)
        if type(container) is dict:
            if parts[-1] not in container:
                raise _Misfit
            del container[parts[-1]]
        elif type(container) is list:
            del container[position(parts[-1], len(container), container)]


def position(part: str, length: int, container: Container) -> int:
    """An index as upstream reads it: signed, counted from the end when negative."""
    if not _INDEX.match(part):
        raise _Misfit
    index = int(part)
    if index < 0:
        index += length
    if not 0 <= index < length:
        raise _Misfit
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
            raise _Misfit
        document.root = value
        return
    container = document.container(parts, write=True)
    if type(container) is list:
        container[position(parts[-1], len(container), container)] = value
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
    if document.copied_bytes > MOST_COPIED_BYTES:
        raise _Misfit
    document.add(document.parts(operation, "path"), msgspec.json.decode(encoded))


def _test(document: _Document, operation: Tree) -> None:
    wanted = operation.get("value")
    found = document.root if operation.get("path") == "" else document.get(document.parts(operation, "path"))
    if not _same(found, wanted):
        raise _Misfit


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: true is not 1, and 1 is not 1.0."""
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return len(one) == len(other) and all(key in other and _same(value, other[key]) for key, value in one.items())
    if type(one) is list:
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


_APPLY: Final[dict[str | None, Callable[[_Document, Tree], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
