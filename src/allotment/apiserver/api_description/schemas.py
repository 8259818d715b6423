"""OpenAPI schemas from type shapes, one component per struct, with Kubernetes' schema names."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources
from typing import Final

import msgspec

from allotment.model.fields import Field, TypeShape
from allotment.model.trees import Tree


@functools.cache
def _texts() -> Mapping[str, Mapping[str, str]]:
    packed = resources.files("allotment.apiserver.api_description").joinpath("data/descriptions.json").read_bytes()
    return msgspec.json.decode(packed, type=dict[str, dict[str, str]])


def description(struct: TypeShape, field: str = "") -> str:
    """The description of a struct or field; empty if there is none. All versions of a struct share descriptions.

    >>> from allotment.model.fields import shape_of
    >>> description(shape_of("v1", "Pod"))
    'Containers that run together on one node.'
    """
    texts = _texts()
    group = struct.package.rpartition("/")[0].rpartition("/")[2]
    fields = texts.get(f"{group}.{struct.bare_name}") or texts.get(struct.bare_name, {})
    return fields.get(field) or (texts["*"].get(field, "") if field else "")


PREFIX: Final = "#/components/schemas/"
META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"

_SCALARS: Final[Mapping[str, Tree]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "uint8": {"type": "integer", "format": "byte"},
    "float64": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "any": {"type": "object"},
}
_EXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
#: Types with custom decoding: their names and JSON types.
_SPECIAL: Final[Mapping[str, tuple[str, Tree]]] = {
    "Quantity": ("io.k8s.apimachinery.pkg.api.resource.Quantity", {"oneOf": [{"type": "string"}, {"type": "number"}]}),
    "IntOrString": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "Time": (f"{META}.Time", {"type": "string", "format": "date-time"}),
    "MicroTime": (f"{META}.MicroTime", {"type": "string", "format": "date-time"}),
    "FieldsV1": (f"{META}.FieldsV1", {"type": "object"}),
    "RawExtension": ("io.k8s.apimachinery.pkg.runtime.RawExtension", {"type": "object"}),
    "JSON": (f"{_EXTENSIONS}.JSON", {}),
    "JSONSchemaPropsOrArray": (f"{_EXTENSIONS}.JSONSchemaPropsOrArray", {}),
    "JSONSchemaPropsOrBool": (f"{_EXTENSIONS}.JSONSchemaPropsOrBool", {}),
    "JSONSchemaPropsOrStringArray": (f"{_EXTENSIONS}.JSONSchemaPropsOrStringArray", {}),
}


def schema_name(shape: TypeShape) -> str:
    """The name of a struct's schema.

    >>> from allotment.model.fields import shape_of
    >>> schema_name(shape_of("v1", "Pod"))
    'io.k8s.api.core.v1.Pod'
    """
    domain, _, path = shape.package.partition("/")
    return ".".join((*reversed(domain.split(".")), *path.split("/"), shape.bare_name))


class Components:
    """The schemas referenced in a document, collected as references are created."""

    def __init__(self) -> None:
        self.schemas: dict[str, Tree] = {}

    def reference(self, shape: TypeShape) -> Tree:
        """A reference to a struct's schema, which is added to the components."""
        name = schema_name(shape)
        if name not in self.schemas:
            self.schemas[name] = {}  # added before its fields, because some structs are recursive
            self.schemas[name] = self._struct(shape)
        return {"$ref": PREFIX + name}

    def value(self, shape: TypeShape) -> Tree:
        """The schema of a value."""
        if shape.form == "struct":
            return self.reference(shape)
        if shape.form == "slice":
            assert shape.element is not None
            return {"type": "array", "items": self.value(shape.element)}
        if shape.form == "map":
            assert shape.element is not None
            return {"type": "object", "additionalProperties": self.value(shape.element)}
        special = _SPECIAL.get(shape.form)
        if special is None:
            return dict(_SCALARS[shape.form])
        name, schema = special
        self.schemas.setdefault(name, schema)
        return {"$ref": PREFIX + name}

    def _struct(self, shape: TypeShape) -> Tree:
        schema: Tree = {"type": "object"}
        if text := description(shape):
            schema = {"description": text, **schema}
        required = [name for name, field in shape.fields.items() if field.required]
        if required:
            schema["required"] = required
        if shape.fields:
            schema["properties"] = {
                name: self._property(shape, name, field) for name, field in sorted(shape.fields.items())
            }
        if shape.map_type == "atomic":
            schema["x-kubernetes-map-type"] = "atomic"
        return schema

    def _property(self, struct: TypeShape, name: str, field: Field) -> Tree:
        schema = self.value(field.shape)
        keywords: Tree = {}
        if text := description(struct, name):
            keywords["description"] = text
        if field.default is not None:
            keywords["default"] = field.default
        elif field.always_printed and field.shape.form == "struct":
            keywords["default"] = {}
        if field.shape.form == "slice":
            # Named list types have no description here.
            keywords |= {} if field.is_wrapped else _list_facts(field)
        elif field.map_type == "atomic" and (field.shape.form == "map" or field.shape.map_type != "atomic"):
            keywords["x-kubernetes-map-type"] = "atomic"
        if field.merge_key:
            keywords["x-kubernetes-patch-merge-key"] = field.merge_key
        if field.strategies:
            keywords["x-kubernetes-patch-strategy"] = ",".join(sorted(field.strategies))
        if not keywords:
            return schema
        # Keywords next to a $ref are ignored, so wrap it in allOf.
        return {"allOf": [schema], **keywords} if "$ref" in schema else {**schema, **keywords}


def _list_facts(field: Field) -> Tree:
    facts: Tree = {"x-kubernetes-list-type": field.list_type}
    if field.list_keys:
        facts["x-kubernetes-list-map-keys"] = list(field.list_keys)
    return facts
