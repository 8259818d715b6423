"""Objects of kinds that users defined, held against their schema's shape: what it does not know goes.

Unlike for built-in kinds, wrong types are no matter of decoding: the schema judges values later, all at once, with
their paths. Nulls stay too, for a schema may allow them.
"""

from __future__ import annotations

from typing import Any

from allotment.model.fields import TypeShape

Path = tuple[str | int, ...]


def prune(value: Any, shape: TypeShape, path: Path, unknown: list[Path]) -> Any:
    """The value without unknown fields, whose paths are added to ``unknown``; the same object when nothing went."""
    if type(value) is dict:
        if shape.form == "struct":
            return _struct(value, shape, path, unknown)
        if shape.form == "map" and shape.element is not None:
            pruned = {key: prune(each, shape.element, (*path, key), unknown) for key, each in value.items()}
            return pruned if any(pruned[key] is not value[key] for key in value) else value
        if shape.form not in ("any", "map") and value:
            # An object where none belongs has only fields that nobody knows.
            unknown.extend((*path, key) for key in value)
            return {}
    elif type(value) is list and shape.form == "slice" and shape.element is not None:
        items = [prune(each, shape.element, (*path, index), unknown) for index, each in enumerate(value)]
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
        # Metadata of embedded objects has a Go type and is judged as such.
        pruned[name] = kept = value if inner.package else prune(value, inner, (*path, name), unknown)
        same = same and kept is value
    return tree if same else pruned
