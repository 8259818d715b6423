"""Schemas and values as CEL sees them: objects with known fields, lists, maps, and texts that are times or bytes."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import replace
from functools import cache
from typing import Any, Final

from allotment.apiserver.custom_resources.shapes import EMBEDDED, INT_OR_STRING, PRESERVE
from allotment.cel.checking import types
from allotment.cel.checking.environment import Environment, declare_environment
from allotment.cel.checking.types import Type
from allotment.cel.evaluation.timestamps import parse_duration, parse_timestamp
from allotment.cel.evaluation.values import ListValue, MapValue, Value
from allotment.model.trees import Tree

_RESERVED: Final = frozenset(
    {
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
        "let", "loop", "package", "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip
_SCALARS: Final = {"integer": types.INT, "number": types.DOUBLE, "boolean": types.BOOL}
_TEXTS: Final = {
    "byte": types.BYTES, "date": types.TIMESTAMP, "date-time": types.TIMESTAMP, "datetime": types.TIMESTAMP,
    "duration": types.DURATION,
}  # fmt: skip
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_IDENTITY: Final[Tree] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}},
}


def escaped(name: str) -> str:
    """A field's name as an identifier; empty where CEL has none for it.

    >>> escaped("namespace"), escaped("a-b.c"), escaped("1st")
    ('__namespace__', 'a__dash__b__dot__c', '')
    """
    if name in _RESERVED:
        return f"__{name}__"
    if not name or name[0].isdigit() or re.search(r"[^a-zA-Z0-9\-./_]", name):
        return ""
    return re.sub(r"__|[-./]", lambda match: _ESCAPES[match[0]], name)


def with_identity(schema: Tree) -> Tree:
    """A schema of whole objects, with the fields that all have."""
    return {**schema, "properties": {**(schema.get("properties") or {}), **_IDENTITY}}


@cache
def _base(kube: str) -> Environment:
    return declare_environment(kube, "stored", True, True)


def environment(schema: Tree, kube: str, *, optional_old: bool = False) -> Environment:
    """The environment for rules on a value: ``self``, and ``oldSelf``."""
    base = _base(kube)
    structs: dict[str, dict[str, Type]] = {}
    self_type = _type(schema, "selfType", structs) or types.DYN
    old = types.optional_of(self_type) if optional_old else self_type
    return replace(
        base, variables={"self": self_type, "oldSelf": old}, structs={**base.structs, **structs}, attribute_type=None
    )


def _type(schema: Tree, name: str, structs: dict[str, dict[str, Type]]) -> Type | None:
    """The type of a schema's values; None where rules cannot speak of them."""
    if schema.get(INT_OR_STRING):
        return types.DYN
    match schema.get("type"):
        case "array":
            items = schema.get("items")
            element = _type(items, f"{name}.@idx", structs) if isinstance(items, dict) else None
            return types.list_of(element) if element is not None else None
        case "object":
            others = schema.get("additionalProperties")
            if isinstance(others, dict):
                value = _type(others, f"{name}.@elem", structs)
                return types.map_of(types.STRING, value) if value is not None else None
            if schema.get(EMBEDDED):
                schema = with_identity(schema)
            fields = {}
            for field, inner in (schema.get("properties") or {}).items():
                known = _type(inner, f"{name}.{field}", structs)
                if known is not None and escaped(field):
                    fields[escaped(field)] = known
            structs[name] = fields
            return types.struct(name)
        case "string":
            return _TEXTS.get(schema.get("format") or "", types.STRING)
        case str(scalar):
            return _SCALARS.get(scalar)
    return None


def value_of(value: Any, schema: Tree) -> Value:
    """A value for rules. Where it does not fit the schema, it is taken as it is: the schema tells."""
    if type(value) is dict:
        others = schema.get("additionalProperties")
        if isinstance(others, dict):
            return MapValue.from_strings([(key, value_of(each, others)) for key, each in value.items()])
        properties = schema.get("properties") or {}
        if schema.get(EMBEDDED):
            properties = with_identity(schema)["properties"]
        keep = bool(schema.get(PRESERVE)) or not properties
        return MapValue.from_strings(
            [
                (escaped(key), value_of(each, properties.get(key, {})))
                for key, each in value.items()
                if (key in properties or keep) and escaped(key) and not _absent(each, properties.get(key, {}))
            ]
        )
    if type(value) is list:
        items = schema.get("items")
        return ListValue([value_of(each, items if isinstance(items, dict) else {}) for each in value])
    if type(value) is str and schema.get("type") == "string":
        return _text(value, schema.get("format") or "")
    if type(value) is int and schema.get("type") == "number":
        return float(value)
    if type(value) is float and schema.get("type") == "integer" and value.is_integer():
        return int(value)
    return value


def _absent(value: Any, schema: Tree) -> bool:
    # Nulls are values only where the schema says that there may be some.
    return value is None and not schema.get("nullable")


def _text(value: str, form: str) -> Value:
    sort = _TEXTS.get(form)
    read: Value = None
    if sort is types.BYTES:
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error:
            return value
    if sort is types.TIMESTAMP:
        read = parse_timestamp(f"{value}T00:00:00Z" if form == "date" else value)
    elif sort is types.DURATION:
        read = parse_duration(value)
    return value if read is None else read
