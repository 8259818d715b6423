"""Removes the fields of a custom object that its schema does not define.

Unlike for built-in kinds, wrong types are not errors here: schema validation reports them later, all together and with
their paths. Nulls stay, because a schema can allow them.
"""

from __future__ import annotations

from typing import Any

from allotment.model.fields import TypeShape

Path = tuple[str | int, ...]


def prune(value: Any, shape: TypeShape, path: Path, unknown: list[Path]) -> Any:
    """The value without unknown fields, whose paths are added to ``unknown``; the same object if nothing changes."""
    if type(value) is dict:
        if shape.form == "struct":
            return _struct(value, shape, path, unknown)
        if shape.form == "map" and shape.element is not None:
            pruned = {key: prune(child, shape.element, (*path, key), unknown) for key, child in value.items()}
            return pruned if any(pruned[key] is not value[key] for key in value) else value
        if shape.form not in ("any", "map") and value:
            # All fields of an object in the position of another type are unknown.
            unknown.extend((*path, key) for key in value)
            return {}
    elif type(value) is list and shape.form == "slice" and shape.element is not None:
        items = [prune(child, shape.element, (*path, index), unknown) for index, child in enumerate(value)]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _struct(tree: dict[str, Any], shape: TypeShape, path: Path, unknown: list[Path]) -> dict[str, Any]:
    pruned: dict[str, Any] = {}
    same = True
    for name, value in tree.items():
        field = shape.fields.get(name)
        inner = field.shape if field is not None else shape.rest
        if inner is None:
            unknown.append((*path, name))
            same = False
            continue
        # Metadata of embedded objects has a Go type and is checked as such.
        pruned[name] = result = value if inner.package else prune(value, inner, (*path, name), unknown)
        same = same and result is value
    return tree if same else pruned
