"""The scale subresource of custom kinds: which fields hold the replicas and the selector."""

from __future__ import annotations

from typing import Any, Final

from allotment.apiserver.kinds.kind import Scaled
from allotment.model.trees import Tree
from allotment.model.validation.errors import Errors, invalid

_MOST: Final = 2**31 - 1
_GO_TYPES: Final[dict[type, str]] = {
    str: "string", bool: "bool", float: "float64", int: "int64", dict: "map[string]interface {}",
    list: "[]interface {}", type(None): "<nil>",
}  # fmt: skip


class _WrongType(Exception):
    """Raised when a value on the way is of another type than wanted; the text is Go's."""


def scaled(scale: Tree | None) -> Scaled:
    """Where the numbers are, as kinds say it."""
    if scale is None:
        return Scaled()
    selector = scale.get("labelSelectorPath") or ""
    return Scaled(
        tuple(_steps(scale["specReplicasPath"])),
        tuple(_steps(scale["statusReplicasPath"])),
        tuple(_steps(selector)) if selector else (),
    )


def scale_problems(tree: Tree, scale: Tree) -> Errors:
    """What keeps an object's replicas and selector from being read."""
    for field in ("specReplicasPath", "statusReplicasPath"):
        path = scale[field]
        try:
            found = _find(tree, path, int)
        except _WrongType as error:
            yield invalid(path, 0, str(error))
            continue
        if found is not None and found < 0:
            yield invalid(path, found, "should be a non-negative integer")
        elif found is not None and found > _MOST:
            yield invalid(path, found, f"should be less than or equal to {_MOST}")
    selector = scale.get("labelSelectorPath")
    if selector:
        try:
            _find(tree, selector, str)
        except _WrongType as error:
            yield invalid(selector, "", str(error))


def _steps(path: str) -> list[str]:
    return path.removeprefix(".").split(".")


def _find(tree: Tree, path: str, wanted: type) -> Any:
    value: Any = tree
    for step in _steps(path):
        if type(value) is not dict:
            raise _WrongType(_told(path, value, "map[string]interface{}"))
        if step not in value:
            return None
        value = value[step]
    if type(value) is not wanted:
        raise _WrongType(_told(path, value, _GO_TYPES[wanted]))
    return value


def _told(path: str, value: Any, wanted: str) -> str:
    shown = f"{value:g}" if type(value) is float else "<nil>" if value is None else value
    return f"{path} accessor error: {shown} is of the type {_GO_TYPES[type(value)]}, expected {wanted}"
