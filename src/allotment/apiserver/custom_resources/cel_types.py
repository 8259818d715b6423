"""Converts the schemas of custom resources to CEL types, and their objects to CEL values."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import replace
from functools import cache
from typing import Any, Final

from allotment.apiserver.kinds.schema_extensions import EMBEDDED_RESOURCE, INT_OR_STRING, PRESERVE_UNKNOWN_FIELDS
from allotment.cel.checking import types
from allotment.cel.checking.environment import Environment, declare_environment
from allotment.cel.checking.types import Type
from allotment.cel.evaluation.timestamps import parse_duration, parse_timestamp
from allotment.cel.evaluation.values import ListValue, MapValue, Value
from allotment.cel.syntax.parser import RESERVED
from allotment.model.trees import Tree

_SCALARS: Final = {"integer": types.INT, "number": types.DOUBLE, "boolean": types.BOOL}
_FORMAT_TYPES: Final = {
    "byte": types.BYTES, "date": types.TIMESTAMP, "date-time": types.TIMESTAMP, "datetime": types.TIMESTAMP,
    "duration": types.DURATION,
}  # fmt: skip
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_IDENTITY_FIELDS: Final[Tree] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}},
}


def escape_field_name(name: str) -> str:
    """A field name escaped to a CEL identifier; empty if it cannot be escaped.

    >>> escape_field_name("namespace"), escape_field_name("a-b.c"), escape_field_name("1st")
    ('__namespace__', 'a__dash__b__dot__c', '')
    """
    if name in RESERVED:
        return f"__{name}__"
    if not name or name[0].isdigit() or re.search(r"[^a-zA-Z0-9\-./_]", name):
        return ""
    return re.sub(r"__|[-./]", lambda match: _ESCAPES[match[0]], name)


def with_identity(schema: Tree) -> Tree:
    """A schema of whole objects with apiVersion, kind and metadata added."""
    return {**schema, "properties": {**(schema.get("properties") or {}), **_IDENTITY_FIELDS}}


@cache
def _base_environment(kube: str) -> Environment:
    return declare_environment(kube, "stored", True, True)


def environment(schema: Tree, kube: str, *, optional_old: bool = False) -> Environment:
    """The environment for rules on a value, with the variables ``self`` and ``oldSelf``."""
    base = _base_environment(kube)
    structs: dict[str, dict[str, Type]] = {}
    self_type = _declared_type(schema, "selfType", structs) or types.DYN
    old = types.optional_of(self_type) if optional_old else self_type
    return replace(
        base, variables={"self": self_type, "oldSelf": old}, structs={**base.structs, **structs}, attribute_type=None
    )


def _declared_type(schema: Tree, name: str, structs: dict[str, dict[str, Type]]) -> Type | None:
    """The CEL type of a schema; None if rules cannot access such values."""
    if schema.get(INT_OR_STRING):
        return types.DYN
    match schema.get("type"):
        case "array":
            items = schema.get("items")
            element = _declared_type(items, f"{name}.@idx", structs) if isinstance(items, dict) else None
            return types.list_of(element) if element is not None else None
        case "object":
            additional = schema.get("additionalProperties")
            if isinstance(additional, dict):
                value = _declared_type(additional, f"{name}.@elem", structs)
                return types.map_of(types.STRING, value) if value is not None else None
            if schema.get(EMBEDDED_RESOURCE):
                schema = with_identity(schema)
            fields = {}
            for field, inner in (schema.get("properties") or {}).items():
                field_type = _declared_type(inner, f"{name}.{field}", structs)
                if field_type is not None and escape_field_name(field):
                    fields[escape_field_name(field)] = field_type
            structs[name] = fields
            return types.struct(name)
        case "string":
            return _FORMAT_TYPES.get(schema.get("format") or "", types.STRING)
        case str(scalar):
            return _SCALARS.get(scalar)
    return None


def to_cel_value(value: Any, schema: Tree) -> Value:
    """Convert a value for CEL. A value that does not match the schema is passed on; validation reports it."""
    if type(value) is dict:
        additional = schema.get("additionalProperties")
        if isinstance(additional, dict):
            return MapValue.from_strings([(key, to_cel_value(item, additional)) for key, item in value.items()])
        properties = schema.get("properties") or {}
        if schema.get(EMBEDDED_RESOURCE):
            properties = with_identity(schema)["properties"]
        keep = bool(schema.get(PRESERVE_UNKNOWN_FIELDS)) or not properties
        return MapValue.from_strings(
            [
                (escape_field_name(key), to_cel_value(item, properties.get(key, {})))
                for key, item in value.items()
                if (key in properties or keep)
                and escape_field_name(key)
                and not _is_absent(item, properties.get(key, {}))
            ]
        )
    if type(value) is list:
        items = schema.get("items")
        return ListValue([to_cel_value(item, items if isinstance(items, dict) else {}) for item in value])
    if type(value) is str and schema.get("type") == "string":
        return _string_value(value, schema.get("format") or "")
    if type(value) is int and schema.get("type") == "number":
        return float(value)
    if type(value) is float and schema.get("type") == "integer" and value.is_integer():
        return int(value)
    return value


def _is_absent(value: Any, schema: Tree) -> bool:
    # A null counts as a value only if the schema is nullable.
    return value is None and not schema.get("nullable")


def _string_value(value: str, format_: str) -> Value:
    cel_type = _FORMAT_TYPES.get(format_)
    parsed: Value = None
    if cel_type is types.BYTES:
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error:
            return value
    if cel_type is types.TIMESTAMP:
        parsed = parse_timestamp(f"{value}T00:00:00Z" if format_ == "date" else value)
    elif cel_type is types.DURATION:
        parsed = parse_duration(value)
    return value if parsed is None else parsed
