"""Validates that a schema is structural: every value has one type, known without looking at the value.

See KEP-1693 and the rules in the Kubernetes documentation of CustomResourceDefinitions. Types, defaults and extensions
are set outside of ``anyOf``, ``oneOf``, ``allOf`` and ``not``, which can only restrict values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from allotment.apiserver.custom_resources.defaulting import apply_defaults
from allotment.apiserver.custom_resources.schema_validation import value_problems
from allotment.apiserver.custom_resources.shapes import shape_from
from allotment.apiserver.kinds.schema_extensions import (
    EMBEDDED_RESOURCE,
    INT_OR_STRING,
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVE_UNKNOWN_FIELDS,
)
from allotment.cel import regex
from allotment.model.pruning import prune
from allotment.model.trees import Tree
from allotment.model.validation.errors import Errors, FieldError, forbidden, invalid, not_supported, required

_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_LEVEL_TEXTS: Final = {
    "root": "at the root",
    "item": "for specified array items",
    "field": "for specified object fields",
}
#: Keywords allowed only outside of anyOf, oneOf, allOf and not, and the error for them inside.
_NOT_NESTED: Final = (
    ("type", "must be empty to be structural"), ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"), ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"), ("nullable", "must be false to be structural"),
    (PRESERVE_UNKNOWN_FIELDS, "must be false to be structural"), (EMBEDDED_RESOURCE, "must be false to be structural"),
    (INT_OR_STRING, "must be false to be structural"), (LIST_KEYS, "must be empty to be structural"),
    (LIST_TYPE, "must be undefined to be structural"), (MAP_TYPE, "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)  # fmt: skip
#: JSON schema keywords not supported in structural schemas.
_UNSUPPORTED: Final = {
    "definitions": "definitions is not supported", "dependencies": "dependencies is not supported",
    "deprecated": "", "discriminator": "", "id": "id is not supported", "patternProperties":
    "patternProperties is not supported", "readOnly": "", "writeOnly": "", "xml": "",
    "$ref": "$ref is not supported", "additionalItems": "additionalItems is not supported",
}  # fmt: skip


def schema_problems(schema: Tree, path: str, *, has_status: bool) -> list[FieldError]:
    """The errors of the schema of a version."""
    problems = list(_root(schema, path, has_status))
    problems += list(_keywords(schema, path, root=True))
    if not problems:
        problems = sorted([*_invariants(schema, "root", path), *_completeness(schema, path)], key=str)
    if not problems:
        problems = list(_defaults(schema, path, root=True))
    return problems


def _root(schema: Tree, path: str, has_status: bool) -> Errors:
    if schema.get("nullable"):
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    if has_status:
        allowed = {
            "$schema", "description", "example", "exclusiveMaximum", "exclusiveMinimum", "externalDocs", "format",
            "items", "maximum", "maxItems", "maxLength", "minimum", "minItems", "minLength", "multipleOf", "pattern",
            "properties", "required", "title", "type", "uniqueItems", "allOf", "anyOf", "oneOf", "not",
            PRESERVE_UNKNOWN_FIELDS, "x-kubernetes-validations", EMBEDDED_RESOURCE, MAP_TYPE,
        }  # fmt: skip
        for name in schema:
            if name not in allowed and schema[name] not in (None, False, [], {}):
                yield invalid(path, f"*.{name}", "only fields allowed are properties, required and description")
                return


def _keywords(schema: Tree, path: str, *, root: bool = False) -> Errors:
    """Check for unsupported keywords and contradicting extensions."""
    for name, text in _UNSUPPORTED.items():
        if name in schema and text:
            yield forbidden(f"{path}.{name}", text)
    value_type = schema.get("type")
    if value_type and value_type not in _TYPES:
        yield not_supported(f"{path}.type", value_type, _TYPES)
    if schema.get("uniqueItems"):
        yield forbidden(
            f"{path}.uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        )
    if schema.get("additionalProperties") not in (None, True, False) and schema.get("properties"):
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    yield from _list_extensions(schema, path)
    if not root and schema.get(PRESERVE_UNKNOWN_FIELDS) is False:
        yield invalid(f"{path}.{PRESERVE_UNKNOWN_FIELDS}", False, "must be true or undefined")
    for inner_path, inner in _subschemas(schema, path):
        yield from _keywords(inner, inner_path)


def _list_extensions(schema: Tree, path: str) -> Errors:
    list_type, keys = schema.get(LIST_TYPE), schema.get(LIST_KEYS)
    items = schema.get("items") if isinstance(schema.get("items"), dict) else None
    if list_type is not None and schema.get("type") != "array":
        if not schema.get("type"):
            yield required(f"{path}.type", f"must be array if {LIST_TYPE} is specified")
        else:
            yield invalid(f"{path}.type", schema["type"], f"must be array if {LIST_TYPE} is specified")
    if list_type is not None and list_type not in ("atomic", "set", "map"):
        yield not_supported(f"{path}.{LIST_TYPE}", list_type, ("atomic", "set", "map"))
    if list_type == "set" and items is not None:
        yield from _set_items(items, path)
    if keys:
        if list_type is None:
            yield required(f"{path}.{LIST_TYPE}", f"must be map if {LIST_KEYS} is non-empty")
        elif list_type != "map":
            yield invalid(f"{path}.{LIST_TYPE}", list_type, f"must be map if {LIST_KEYS} is non-empty")
    if list_type == "map":
        if not keys:
            yield required(f"{path}.{LIST_KEYS}", f"must not be empty if {LIST_TYPE} is map")
        if items is None:
            yield required(f"{path}.items", f"must have a schema if {LIST_TYPE} is map")
        elif items.get("type") != "object":
            yield invalid(
                f"{path}.items.type", items.get("type", ""), f"must be object if parent array's {LIST_TYPE} is map"
            )
        else:
            yield from _list_keys(items, keys or [], path)
    if schema.get(MAP_TYPE) is not None:
        if schema.get("type") != "object":
            yield invalid(f"{path}.type", schema.get("type", ""), f"must be object if {MAP_TYPE} is specified")
        if schema[MAP_TYPE] not in ("atomic", "granular"):
            yield not_supported(f"{path}.{MAP_TYPE}", schema[MAP_TYPE], ("atomic", "granular"))


def _set_items(items: Tree, path: str) -> Errors:
    """Items of a set are compared as a whole, so they must be atomic."""
    items_path, detail = f"{path}.items", f"must be atomic as item of a list with {LIST_TYPE}=set"
    if items.get("nullable"):
        yield forbidden(f"{items_path}.nullable", f"cannot be nullable when {LIST_TYPE} is set")
    if items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
        yield invalid(f"{items_path}.{MAP_TYPE}", items.get(MAP_TYPE), detail)
    if items.get("type") == "array" and items.get(LIST_TYPE) not in (None, "atomic"):
        yield invalid(f"{items_path}.{LIST_TYPE}", items[LIST_TYPE], detail)


def _list_keys(items: Tree, keys: list[str], path: str) -> Errors:
    properties = items.get("properties") or {}
    for key in keys:
        inner = properties.get(key)
        key_path = f"{path}.items.properties[{key}]"
        if inner is None:
            yield invalid(f"{path}.{LIST_KEYS}", keys, "entries must all be names of item properties")
        elif inner.get("type") in ("array", "object"):
            detail = f"must be a scalar type if parent array's {LIST_TYPE} is map"
            yield invalid(f"{key_path}.type", inner["type"], detail)
        elif key not in (items.get("required") or ()) and "default" not in inner:
            detail = f"this property is in {LIST_KEYS}, so it must have a default or be a required property"
            yield required(f"{key_path}.default", detail)
    if len(set(keys)) != len(keys):
        yield invalid(f"{path}.{LIST_KEYS}", keys, "must not contain duplicate entries")


def _subschemas(schema: Tree, path: str) -> Iterator[tuple[str, Tree]]:
    """Yield the direct subschemas with their paths."""
    for name, inner in (schema.get("properties") or {}).items():
        yield f"{path}.properties[{name}]", inner
    for name in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(name), dict):
            yield f"{path}.{name}", schema[name]
    for name in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(schema.get(name) or ()):
            yield f"{path}.{name}[{index}]", inner


# --- structure -------------------------------------------------------------------------------------------------------


def _invariants(schema: Tree, level: str, path: str) -> Errors:
    items, additional = schema.get("items"), schema.get("additionalProperties")
    if schema.get("type") == "array" and not isinstance(items, dict):
        yield required(f"{path}.items", "must be specified")
    if isinstance(items, dict):
        yield from _invariants(items, "item", f"{path}.items")
    for name, inner in (schema.get("properties") or {}).items():
        yield from _invariants(inner, "field", f"{path}.properties[{name}]")
    if additional is not None and level == "root":
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(additional, dict):
        yield from _invariants(additional, "field", f"{path}.additionalProperties")
    if schema.get(INT_OR_STRING):
        for name in (PRESERVE_UNKNOWN_FIELDS, EMBEDDED_RESOURCE):
            if schema.get(name):
                yield invalid(f"{path}.{name}", True, f"must be false if {INT_OR_STRING} is true")
    yield from _value_validations(schema, path, top=True)
    yield from _type(schema, level, path)
    yield from _identity(schema, level, path)


def _type(schema: Tree, level: str, path: str) -> Errors:
    value_type = schema.get("type")
    if schema.get(EMBEDDED_RESOURCE):
        if not value_type:
            yield required(f"{path}.type", f"must be object if {EMBEDDED_RESOURCE} is true")
        elif value_type != "object":
            yield invalid(f"{path}.type", value_type, f"must be object if {EMBEDDED_RESOURCE} is true")
        if schema.get("additionalProperties") is not None:
            yield forbidden(f"{path}.additionalProperties", f"must not be used if {EMBEDDED_RESOURCE} is set")
        if not schema.get(PRESERVE_UNKNOWN_FIELDS) and not schema.get("properties"):
            yield required(
                f"{path}.properties",
                f"must not be empty if {EMBEDDED_RESOURCE} is true without {PRESERVE_UNKNOWN_FIELDS}",
            )
    elif not value_type and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE_UNKNOWN_FIELDS):
        yield required(f"{path}.type", f"must not be empty {_LEVEL_TEXTS[level]}")
    if level == "root" and value_type and value_type != "object":
        yield invalid(f"{path}.type", value_type, "must be object at the root")


def _identity(schema: Tree, level: str, path: str) -> Errors:
    """Restrict the schemas of apiVersion, kind and metadata, which the server defines itself."""
    if level != "root" and not schema.get(EMBEDDED_RESOURCE):
        return
    properties = schema.get("properties") or {}
    for name in ("kind", "apiVersion"):
        if name in properties and properties[name].get("type") != "string":
            yield invalid(f"{path}.properties[{name}].type", properties[name].get("type", ""), "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    metadata_path = f"{path}.properties[metadata]"
    if metadata.get("type") != "object":
        yield invalid(f"{metadata_path}.type", metadata.get("type", ""), "must be object")
    if level == "root":
        other_fields = set(metadata) - {"type", "properties", "default", "description", "title"}
        other_properties = set(metadata.get("properties") or {}) - {"name", "generateName"}
        if other_fields or other_properties or metadata.get("description") or metadata.get("title"):
            yield forbidden(
                metadata_path,
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            )


def _value_validations(schema: Tree, path: str, *, top: bool = False) -> Errors:
    """Check the schemas in ``anyOf``, ``oneOf``, ``allOf`` and ``not``, and the patterns."""
    any_of, all_of = schema.get("anyOf") or [], schema.get("allOf") or []
    if not (top and any_of == _INT_OR_STRING):
        for index, inner in enumerate(any_of):
            yield from _nested(inner, f"{path}.anyOf[{index}]")
    for index, inner in enumerate(all_of):
        first = top and index == 0 and inner.get("anyOf") == _INT_OR_STRING
        yield from _nested({**inner, "anyOf": []} if first else inner, f"{path}.allOf[{index}]")
    for index, inner in enumerate(schema.get("oneOf") or []):
        yield from _nested(inner, f"{path}.oneOf[{index}]")
    if isinstance(schema.get("not"), dict):
        yield from _nested(schema["not"], f"{path}.not")
    if schema.get("pattern"):
        try:
            regex.compile(schema["pattern"])
        except regex.RegexError as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{path}.pattern", schema["pattern"], text)


def _nested(schema: Tree, path: str) -> Errors:
    yield from _value_validations(schema, path)
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], f"{path}.items")
    for name, inner in (schema.get("properties") or {}).items():
        yield from _nested(inner, f"{path}.properties[{name}]")
    for name, text in _NOT_NESTED:
        if schema.get(name) not in (None, "", False, [], {}) or (name == "default" and name in schema):
            yield forbidden(f"{path}.{name}", text)
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _completeness(schema: Tree, path: str) -> Errors:
    """Fields used in ``anyOf``, ``oneOf``, ``allOf`` and ``not`` must also be defined outside of them."""
    for name in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(schema.get(name) or ()):
            yield from _nested_completeness(inner, schema, f"{path}.{name}[{index}]", path)
    if isinstance(schema.get("not"), dict):
        yield from _nested_completeness(schema["not"], schema, f"{path}.not", path)


def _nested_completeness(nested: Tree, body: Tree, path: str, body_path: str) -> Errors:
    items = body.get("items") if isinstance(body.get("items"), dict) else None
    if isinstance(nested.get("items"), dict):
        if items is None:
            yield required(f"{body_path}.items", f"because it is defined in {path}.items")
        else:
            yield from _nested_completeness(nested["items"], items, f"{path}.items", f"{body_path}.items")
    properties = body.get("properties") or {}
    for name, inner in (nested.get("properties") or {}).items():
        if name in properties:
            yield from _nested_completeness(
                inner, properties[name], f"{path}.properties[{name}]", f"{body_path}.properties[{name}]"
            )
        else:
            yield required(f"{body_path}.properties[{name}]", f"because it is defined in {path}.properties[{name}]")
    for name in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(nested.get(name) or ()):
            yield from _nested_completeness(inner, body, f"{path}.{name}[{index}]", body_path)
    if isinstance(nested.get("not"), dict):
        yield from _nested_completeness(nested["not"], body, f"{path}.not", body_path)


# --- defaults --------------------------------------------------------------------------------------------------------


def _defaults(schema: Tree, path: str, *, root: bool = False) -> Errors:
    """A default must be valid under its own schema and contain no fields that would be pruned."""
    if "default" in schema and schema["default"] is not None:
        default_path = f"{path}.default"
        value = schema["default"]
        unknown: list[tuple[str | int, ...]] = []
        prune(value, shape_from(schema), (), unknown)
        if root:
            for name in ("apiVersion", "kind"):
                if type(value) is not dict or not value.get(name):
                    yield required(f"{default_path}.{name}")
        elif unknown:
            yield invalid(default_path, value, "must not have unknown fields")
        else:
            without_default = {name: keyword for name, keyword in schema.items() if name != "default"}
            for problem in value_problems(apply_defaults(value, schema), without_default):
                yield problem._replace(
                    path=f"{default_path}.{problem.path}" if problem.path not in ("", "<nil>") else default_path
                )
    for name, inner in (schema.get("properties") or {}).items():
        yield from _defaults(inner, f"{path}.properties[{name}]")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from _defaults(schema[name], f"{path}.{name}")
