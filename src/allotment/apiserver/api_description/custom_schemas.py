"""The schemas of custom resources as documents publish them: with implied fields, and in v2 without what it cannot say.

kubectl reads the v2 document: a schema that states some fields of an object makes it refuse all others, so that
objects with unknown fields are published without any.
"""

from __future__ import annotations

from typing import Final

from allotment.apiserver.kinds.kind import ServedKind
from allotment.apiserver.kinds.schema_extensions import EMBEDDED_RESOURCE, INT_OR_STRING, PRESERVE_UNKNOWN_FIELDS
from allotment.model.trees import Tree

_INT_OR_STRING_TYPES: Final = [{"type": "integer"}, {"type": "string"}]
_IDENTITY: Final = ("kind", "apiVersion")
_KINDS: Final = "x-kubernetes-group-version-kind"
_STRUCTURE: Final = ("type", "items", "properties")


def definition_name(kind: ServedKind, version: str) -> str:
    """The name of a custom resource's schema in the documents."""
    return ".".join((*reversed(kind.group.split(".")), version, kind.kind))


def complete(schema: Tree, common: Tree) -> Tree:
    """A schema as v3 documents publish it. ``common``: the schemas of the fields that every object has."""
    completed = dict(schema)
    if "properties" in schema:
        completed["properties"] = {name: complete(inner, common) for name, inner in schema["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            completed[name] = complete(schema[name], common)
    if schema.get(INT_OR_STRING):
        completed.setdefault("anyOf", _INT_OR_STRING_TYPES)
    if schema.get(EMBEDDED_RESOURCE):
        required = schema.get("required") or []
        completed["required"] = [*required, *(name for name in _IDENTITY if name not in required)]
        completed["properties"] = {**completed.get("properties", {}), **common}
    return completed


def for_v2(schema: Tree) -> Tree:
    """One level of a schema of a v3 document, without defaults and without fields that v2 cannot describe."""
    keeps_unknown = bool(schema.get(PRESERVE_UNKNOWN_FIELDS))
    if keeps_unknown and _KINDS in schema:
        return {"type": "object", _KINDS: schema[_KINDS]}
    converted = {name: value for name, value in schema.items() if name != "default"}
    if schema.get("nullable"):
        converted = _without(converted, _STRUCTURE)
    if keeps_unknown:
        converted = _without(converted, _STRUCTURE if schema.get("type") in ("object", "array") else _STRUCTURE[1:])
        if schema.get(EMBEDDED_RESOURCE):
            converted = _requiring(converted, [name for name in schema["required"] if name not in _IDENTITY])
    if converted.get("type") == "array" and "items" not in converted:
        del converted["type"]
    properties = converted.get("properties") or {}
    nullable = {name for name, inner in properties.items() if inner.get("nullable")}
    if nullable:
        converted = _requiring(converted, [name for name in converted.get("required") or () if name not in nullable])
    values = converted.get("additionalProperties")
    if isinstance(values, dict) and values.get("nullable"):
        converted = _without(converted, ("required",))
    return converted


def _requiring(schema: Tree, names: list[str]) -> Tree:
    return {**schema, "required": names} if names else _without(schema, ("required",))


def _without(schema: Tree, names: tuple[str, ...]) -> Tree:
    return {name: value for name, value in schema.items() if name not in names}
