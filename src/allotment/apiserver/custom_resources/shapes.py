"""Converts OpenAPI v3 schemas to type shapes, as used by server-side apply, pruning and patches.

These shapes have no package, which distinguishes them from shapes of Go types. Values are kept as written: zero values
do not count as absent.
"""

from __future__ import annotations

from typing import Final

from allotment.apiserver.kinds.schema_extensions import (
    EMBEDDED_RESOURCE,
    INT_OR_STRING,
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVE_UNKNOWN_FIELDS,
)
from allotment.model.fields import Field, TypeShape, shape_of
from allotment.model.trees import Tree

_SCALARS: Final = {"string": "string", "integer": "int64", "number": "float64", "boolean": "bool"}
_STRING: Final = TypeShape("string", "string")


def object_shape(schema: Tree) -> TypeShape:
    """The shape of a whole object, with apiVersion, kind and metadata."""
    shape = shape_from(schema)
    if shape.form != "struct":
        shape = _struct(schema)
    shape.fields = {
        **_identity(),
        **{name: shape.fields[name] for name in shape.fields if name not in _IDENTITY_FIELDS},
    }
    return shape


def shape_from(schema: Tree) -> TypeShape:
    """The shape of any value."""
    if schema.get(INT_OR_STRING):
        return TypeShape("IntOrString", "intstr.IntOrString")
    match schema.get("type"):
        case "object":
            values = schema.get("additionalProperties")
            if values and not schema.get("properties"):
                shape = TypeShape("map", "map", map_type=schema.get(MAP_TYPE, "granular"))
                shape.element = shape_from(values) if isinstance(values, dict) else _anything()
                return shape
            return _struct(schema)
        case "array":
            shape = TypeShape("slice", "slice")
            items = schema.get("items")
            shape.element = shape_from(items) if isinstance(items, dict) else _anything()
            shape.list_type = schema.get(LIST_TYPE, "atomic")
            shape.list_keys = tuple(schema.get(LIST_KEYS) or ())
            return shape
        case str(scalar) if scalar in _SCALARS:
            return TypeShape(_SCALARS[scalar], scalar)
    return _anything()


def _struct(schema: Tree) -> TypeShape:
    shape = TypeShape("struct", "object", map_type=schema.get(MAP_TYPE, "granular"))
    required = schema.get("required") or ()
    if schema.get(EMBEDDED_RESOURCE):
        shape.fields = _identity()
    for name, inner in sorted((schema.get("properties") or {}).items()):
        if name not in shape.fields:
            shape.fields[name] = _field(inner, name in required)
    if schema.get(PRESERVE_UNKNOWN_FIELDS):
        shape.rest = _anything()
    return shape


def _field(schema: Tree, required: bool) -> Field:
    shape = shape_from(schema)
    return Field(
        shape, pointer=True, required=required, list_type=shape.list_type, list_keys=shape.list_keys,
        map_type=shape.map_type, default=schema.get("default"),
    )  # fmt: skip


_IDENTITY_FIELDS: Final = ("apiVersion", "kind", "metadata")


def _identity() -> dict[str, Field]:
    pod = shape_of("v1", "Pod")
    assert pod is not None
    return {"apiVersion": Field(_STRING), "kind": Field(_STRING), "metadata": pod.fields["metadata"]}


def _anything() -> TypeShape:
    return TypeShape("any", "interface {}")
