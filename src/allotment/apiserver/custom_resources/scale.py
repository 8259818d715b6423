"""The scale subresource of custom resources: paths of replicas and selector, and their validation."""

from __future__ import annotations

from typing import Any, Final

from allotment.apiserver.kinds.kind import ScalePaths
from allotment.model.trees import Tree
from allotment.model.validation.errors import Errors, invalid

_MAX_REPLICAS: Final = 2**31 - 1
_GO_TYPES: Final[dict[type, str]] = {
    str: "string", bool: "bool", float: "float64", int: "int64", dict: "map[string]interface {}",
    list: "[]interface {}", type(None): "<nil>",
}  # fmt: skip


class _WrongType(Exception):
    """Raised when a value on the path has an unexpected type; the text is Go's."""


def scale_paths(scale: Tree | None) -> ScalePaths:
    """The paths of the scale subresource; the defaults without one."""
    if scale is None:
        return ScalePaths()
    selector = scale.get("labelSelectorPath") or ""
    return ScalePaths(
        tuple(_fields(scale["specReplicasPath"])),
        tuple(_fields(scale["statusReplicasPath"])),
        tuple(_fields(selector)) if selector else (),
    )


def scale_problems(tree: Tree, scale: Tree) -> Errors:
    """Yield an error for each of an object's replicas and selector fields that cannot be read."""
    for field in ("specReplicasPath", "statusReplicasPath"):
        path = scale[field]
        try:
            value = _value_at(tree, path, int)
        except _WrongType as error:
            yield invalid(path, 0, str(error))
            continue
        if value is not None and value < 0:
            yield invalid(path, value, "should be a non-negative integer")
        elif value is not None and value > _MAX_REPLICAS:
            yield invalid(path, value, f"should be less than or equal to {_MAX_REPLICAS}")
    selector = scale.get("labelSelectorPath")
    if selector:
        try:
            _value_at(tree, selector, str)
        except _WrongType as error:
            yield invalid(selector, "", str(error))


def _fields(path: str) -> list[str]:
    return path.removeprefix(".").split(".")


def _value_at(tree: Tree, path: str, expected: type) -> Any:
    value: Any = tree
    for field in _fields(path):
        if type(value) is not dict:
            raise _WrongType(_accessor_error(path, value, "map[string]interface{}"))
        if field not in value:
            return None
        value = value[field]
    if type(value) is not expected:
        raise _WrongType(_accessor_error(path, value, _GO_TYPES[expected]))
    return value


def _accessor_error(path: str, value: Any, expected: str) -> str:
    printed = f"{value:g}" if type(value) is float else "<nil>" if value is None else value
    return f"{path} accessor error: {printed} is of the type {_GO_TYPES[type(value)]}, expected {expected}"
