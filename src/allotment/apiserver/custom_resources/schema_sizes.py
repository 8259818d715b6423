"""The maximum sizes of values of a schema, as Kubernetes assumes them to estimate the cost of CEL rules.

What a schema does not limit is limited by the size of a request.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from allotment.apiserver.custom_resources.cel_types import escape_field_name
from allotment.apiserver.kinds.schema_extensions import EMBEDDED_RESOURCE, INT_OR_STRING
from allotment.cel.checking.declared_sizes import DeclaredType
from allotment.model.features import Features
from allotment.model.trees import Tree

#: Bytes of the largest request.
MAX_REQUEST: Final = 3 * 1024 * 1024
#: Bytes that one character of a string can have.
_BYTES_PER_CHARACTER: Final = 4
_STRING: Final[Tree] = {"type": "string"}
#: Longest names from 1.37 on: generated ones get a suffix.
_NAME_LENGTHS: Final = {"name": 253, "generateName": 252}


class SchemaSize(NamedTuple):
    """The maximum sizes of a value and its parts, and the bytes of its shortest form in JSON."""

    declared: DeclaredType
    min_bytes: int

    @property
    def max_count(self) -> int:
        """The number of such values that fit into a request."""
        return MAX_REQUEST // (self.min_bytes + 1)


#: Scalars of one size. Upstream states none for numbers and booleans.
_SCALARS: Final = {
    "boolean": SchemaSize(DeclaredType(0), 4),
    "integer": SchemaSize(DeclaredType(0), 1),
    "number": SchemaSize(DeclaredType(0), 1),
}
#: The longest and the shortest form of strings with a format.
_FORMATS: Final = {"duration": (32, 3), "date": (12, 12), "date-time": (32, 21)}


def schema_size(schema: Tree, kube: str, *, is_resource: bool = False) -> SchemaSize | None:
    """The sizes of a schema's values; None if rules cannot read them. ``is_resource``: of a whole object."""
    if schema.get(INT_OR_STRING):
        return SchemaSize(DeclaredType(_max_bytes(schema)), 1)
    if is_resource:
        schema = {**schema, "properties": _with_identity(schema.get("properties") or {}, kube)}
    match schema.get("type"):
        case "array":
            return _list_size(schema, kube)
        case "object":
            additional = schema.get("additionalProperties")
            return _map_size(schema, additional, kube) if isinstance(additional, dict) else _object_size(schema, kube)
        case "string":
            return _string_size(schema)
        case str(scalar):
            return _SCALARS.get(scalar)
    return None


def max_elements(schema: Tree) -> int | None:
    """The number of values that each field, item or entry of a schema has at most; None if it is not limited."""
    if schema.get("type") == "array":
        return _limit(schema, "maxItems")
    if schema.get("type") == "object" and schema.get("additionalProperties"):
        return _limit(schema, "maxProperties")
    return 1


def _limit(schema: Tree, name: str) -> int | None:
    value = schema.get(name)
    return None if value is None else max(int(value), 0)


def _part_size(schema: Tree, kube: str) -> SchemaSize | None:
    return schema_size(schema, kube, is_resource=bool(schema.get(EMBEDDED_RESOURCE)))


def _list_size(schema: Tree, kube: str) -> SchemaSize | None:
    items = schema.get("items")
    element = _part_size(items, kube) if isinstance(items, dict) else None
    if element is None:
        return None
    limit = _limit(schema, "maxItems")
    count = (MAX_REQUEST - 2) // (element.min_bytes + 1) if limit is None else limit
    return SchemaSize(DeclaredType(count, element=element.declared), 2)


def _map_size(schema: Tree, additional: Tree, kube: str) -> SchemaSize | None:
    value = _part_size(additional, kube)
    if value is None:
        return None
    limit = _limit(schema, "maxProperties")
    count = (MAX_REQUEST - 2) // (value.min_bytes + 6) if limit is None else limit
    return SchemaSize(DeclaredType(count, key=DeclaredType(0), element=value.declared), 2)


def _object_size(schema: Tree, kube: str) -> SchemaSize:
    required = set(schema.get("required") or ())
    fields: dict[str, DeclaredType] = {}
    min_bytes = 2
    for name, inner in (schema.get("properties") or {}).items():
        size = _part_size(inner, kube)
        if size is None:
            continue
        if escaped := escape_field_name(name):
            fields[escaped] = size.declared
        if name in required and inner.get("default") is None:
            min_bytes += len(name.encode()) + size.min_bytes + 4
    return SchemaSize(DeclaredType(0, fields), min_bytes)


def _string_size(schema: Tree) -> SchemaSize:
    format_name = schema.get("format") or ""
    if format_name in _FORMATS:
        longest, shortest = _FORMATS[format_name]
        return SchemaSize(DeclaredType(longest), shortest)
    if format_name == "byte":
        limit = _limit(schema, "maxLength")
        return SchemaSize(DeclaredType(MAX_REQUEST - 2 if limit is None else limit), 2)
    values = [value for value in schema.get("enum") or () if isinstance(value, str)]
    if schema.get("enum") and schema.get("maxLength") is None:
        return SchemaSize(DeclaredType(max((len(value.encode()) for value in values), default=0)), 2)
    return SchemaSize(DeclaredType(_max_bytes(schema)), 2)


def _max_bytes(schema: Tree) -> int:
    limit = _limit(schema, "maxLength")
    return MAX_REQUEST - 2 if limit is None else limit * _BYTES_PER_CHARACTER


def _with_identity(properties: Tree, kube: str) -> Tree:
    """The properties of whole objects: rules can always read the kind and the name."""
    metadata: Tree = (properties.get("metadata") or {}).get("properties") or {}
    if all(
        (part.get(name) or {}).get("type") == "string"
        for part, names in ((properties, ("kind", "apiVersion")), (metadata, ("name", "generateName")))
        for name in names
    ):
        return properties
    names = {name: _name_schema(metadata.get(name) or {}, name, kube) for name in _NAME_LENGTHS}
    identity = {"kind": _STRING, "apiVersion": _STRING, "metadata": {"type": "object", "properties": names}}
    return {**properties, **identity}


def _name_schema(schema: Tree, name: str, kube: str) -> Tree:
    if not Features(kube).since("1.37"):
        return _STRING
    return {**_STRING, "maxLength": min(schema.get("maxLength", _NAME_LENGTHS[name]), _NAME_LENGTHS[name])}
