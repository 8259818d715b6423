"""Structural schemas: the rules a schema must keep so that every value has one type, known without looking at it.

See KEP-1693 and the rules in Kubernetes' documentation of CustomResourceDefinitions. Types, defaults and extensions
stand in the main body; ``anyOf`` and the like may only say more about values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from allotment.apiserver.custom_resources.defaulting import default
from allotment.apiserver.custom_resources.schema_validation import problems
from allotment.apiserver.custom_resources.shapes import (
    EMBEDDED,
    INT_OR_STRING,
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVE,
    shape_from,
)
from allotment.cel import regex
from allotment.model.pruning import prune
from allotment.model.trees import Tree
from allotment.model.validation.errors import Errors, FieldError, forbidden, invalid, not_supported, required

_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_EMPTY: Final = {"root": "at the root", "item": "for specified array items", "field": "for specified object fields"}
#: What only the main body may say, and how it is put when it stands elsewhere.
_NOT_NESTED: Final = (
    ("type", "must be empty to be structural"), ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"), ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"), ("nullable", "must be false to be structural"),
    (PRESERVE, "must be false to be structural"), (EMBEDDED, "must be false to be structural"),
    (INT_OR_STRING, "must be false to be structural"), (LIST_KEYS, "must be empty to be structural"),
    (LIST_TYPE, "must be undefined to be structural"), (MAP_TYPE, "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)  # fmt: skip
#: Keywords of JSON schema that no structural schema has.
_FORBIDDEN: Final = {
    "definitions": "definitions is not supported", "dependencies": "dependencies is not supported",
    "deprecated": "", "discriminator": "", "id": "id is not supported", "patternProperties":
    "patternProperties is not supported", "readOnly": "", "writeOnly": "", "xml": "",
    "$ref": "$ref is not supported", "additionalItems": "additionalItems is not supported",
}  # fmt: skip


def schema_problems(schema: Tree, path: str, *, has_status: bool) -> list[FieldError]:
    """Everything that keeps a schema from being used for a version."""
    found = list(_root(schema, path, has_status))
    found += list(_keywords(schema, path, root=True))
    if not found:
        found = sorted([*_invariants(schema, "root", path), *_completeness(schema, path)], key=str)
    if not found:
        found = list(_defaults(schema, path, root=True))
    return found


def _root(schema: Tree, path: str, has_status: bool) -> Errors:
    if schema.get("nullable"):
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    if has_status:
        allowed = {
            "$schema", "description", "example", "exclusiveMaximum", "exclusiveMinimum", "externalDocs", "format",
            "items", "maximum", "maxItems", "maxLength", "minimum", "minItems", "minLength", "multipleOf", "pattern",
            "properties", "required", "title", "type", "uniqueItems", "allOf", "anyOf", "oneOf", "not", PRESERVE,
            "x-kubernetes-validations", EMBEDDED, MAP_TYPE,
        }  # fmt: skip
        for name in schema:
            if name not in allowed and schema[name] not in (None, False, [], {}):
                yield invalid(path, f"*.{name}", "only fields allowed are properties, required and description")
                return


def _keywords(schema: Tree, path: str, *, root: bool = False) -> Errors:
    """What any schema may not say, and extensions that contradict each other."""
    for name, text in _FORBIDDEN.items():
        if name in schema and text:
            yield forbidden(f"{path}.{name}", text)
    sort = schema.get("type")
    if sort and sort not in _TYPES:
        yield not_supported(f"{path}.type", sort, _TYPES)
    if schema.get("uniqueItems"):
        yield forbidden(
            f"{path}.uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        )
    if schema.get("additionalProperties") not in (None, True, False) and schema.get("properties"):
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    yield from _lists(schema, path)
    if not root and schema.get(PRESERVE) is False:
        yield invalid(f"{path}.{PRESERVE}", False, "must be true or undefined")
    for where, inner in _below(schema, path):
        yield from _keywords(inner, where)


def _lists(schema: Tree, path: str) -> Errors:
    sort, keys = schema.get(LIST_TYPE), schema.get(LIST_KEYS)
    items = schema.get("items") if isinstance(schema.get("items"), dict) else None
    if sort is not None and schema.get("type") != "array":
        if not schema.get("type"):
            yield required(f"{path}.type", f"must be array if {LIST_TYPE} is specified")
        else:
            yield invalid(f"{path}.type", schema["type"], f"must be array if {LIST_TYPE} is specified")
    if sort is not None and sort not in ("atomic", "set", "map"):
        yield not_supported(f"{path}.{LIST_TYPE}", sort, ("atomic", "set", "map"))
    if sort == "set" and items is not None:
        yield from _set_items(items, path)
    if keys:
        if sort is None:
            yield required(f"{path}.{LIST_TYPE}", f"must be map if {LIST_KEYS} is non-empty")
        elif sort != "map":
            yield invalid(f"{path}.{LIST_TYPE}", sort, f"must be map if {LIST_KEYS} is non-empty")
    if sort == "map":
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
    """Items of a set are compared whole, so nobody may own a part of one."""
    where, why = f"{path}.items", f"must be atomic as item of a list with {LIST_TYPE}=set"
    if items.get("nullable"):
        yield forbidden(f"{where}.nullable", f"cannot be nullable when {LIST_TYPE} is set")
    if items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
        yield invalid(f"{where}.{MAP_TYPE}", items.get(MAP_TYPE), why)
    if items.get("type") == "array" and items.get(LIST_TYPE) not in (None, "atomic"):
        yield invalid(f"{where}.{LIST_TYPE}", items[LIST_TYPE], why)


def _list_keys(items: Tree, keys: list[str], path: str) -> Errors:
    properties = items.get("properties") or {}
    for key in keys:
        inner = properties.get(key)
        where = f"{path}.items.properties[{key}]"
        if inner is None:
            yield invalid(f"{path}.{LIST_KEYS}", keys, "entries must all be names of item properties")
        elif inner.get("type") in ("array", "object"):
            why = f"must be a scalar type if parent array's {LIST_TYPE} is map"
            yield invalid(f"{where}.type", inner["type"], why)
        elif key not in (items.get("required") or ()) and "default" not in inner:
            why = f"this property is in {LIST_KEYS}, so it must have a default or be a required property"
            yield required(f"{where}.default", why)
    if len(set(keys)) != len(keys):
        yield invalid(f"{path}.{LIST_KEYS}", keys, "must not contain duplicate entries")


def _below(schema: Tree, path: str) -> Iterator[tuple[str, Tree]]:
    """The schemas in a schema."""
    for name, inner in (schema.get("properties") or {}).items():
        yield f"{path}.properties[{name}]", inner
    for name in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(name), dict):
            yield f"{path}.{name}", schema[name]
    for name in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(schema.get(name) or ()):
            yield f"{path}.{name}[{index}]", inner


# --- the main body ---------------------------------------------------------------------------------------------------


def _invariants(schema: Tree, level: str, path: str) -> Errors:
    items, others = schema.get("items"), schema.get("additionalProperties")
    if schema.get("type") == "array" and not isinstance(items, dict):
        yield required(f"{path}.items", "must be specified")
    if isinstance(items, dict):
        yield from _invariants(items, "item", f"{path}.items")
    for name, inner in (schema.get("properties") or {}).items():
        yield from _invariants(inner, "field", f"{path}.properties[{name}]")
    if others is not None and level == "root":
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(others, dict):
        yield from _invariants(others, "field", f"{path}.additionalProperties")
    if schema.get(INT_OR_STRING):
        for name in (PRESERVE, EMBEDDED):
            if schema.get(name):
                yield invalid(f"{path}.{name}", True, f"must be false if {INT_OR_STRING} is true")
    yield from _about_values(schema, path, top=True)
    yield from _type(schema, level, path)
    yield from _identity(schema, level, path)


def _type(schema: Tree, level: str, path: str) -> Errors:
    sort = schema.get("type")
    if schema.get(EMBEDDED):
        if not sort:
            yield required(f"{path}.type", f"must be object if {EMBEDDED} is true")
        elif sort != "object":
            yield invalid(f"{path}.type", sort, f"must be object if {EMBEDDED} is true")
        if schema.get("additionalProperties") is not None:
            yield forbidden(f"{path}.additionalProperties", f"must not be used if {EMBEDDED} is set")
        if not schema.get(PRESERVE) and not schema.get("properties"):
            yield required(f"{path}.properties", f"must not be empty if {EMBEDDED} is true without {PRESERVE}")
    elif not sort and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        yield required(f"{path}.type", f"must not be empty {_EMPTY[level]}")
    if level == "root" and sort and sort != "object":
        yield invalid(f"{path}.type", sort, "must be object at the root")


def _identity(schema: Tree, level: str, path: str) -> Errors:
    """apiVersion, kind and metadata are the server's own; a schema may hardly speak of them."""
    if level != "root" and not schema.get(EMBEDDED):
        return
    properties = schema.get("properties") or {}
    for name in ("kind", "apiVersion"):
        if name in properties and properties[name].get("type") != "string":
            yield invalid(f"{path}.properties[{name}].type", properties[name].get("type", ""), "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    where = f"{path}.properties[metadata]"
    if metadata.get("type") != "object":
        yield invalid(f"{where}.type", metadata.get("type", ""), "must be object")
    if level == "root":
        more = set(metadata) - {"type", "properties", "default", "description", "title"}
        named = set(metadata.get("properties") or {}) - {"name", "generateName"}
        if more or named or metadata.get("description") or metadata.get("title"):
            yield forbidden(
                where,
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            )


def _about_values(schema: Tree, path: str, *, top: bool = False) -> Errors:
    """What ``anyOf`` and the like may hold, and whether patterns can be read."""
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
    yield from _about_values(schema, path)
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
    """Fields that ``anyOf`` and the like speak of at the root must be in the main body, too."""
    for name in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(schema.get(name) or ()):
            yield from _told(inner, schema, f"{path}.{name}[{index}]", path)
    if isinstance(schema.get("not"), dict):
        yield from _told(schema["not"], schema, f"{path}.not", path)


def _told(nested: Tree, body: Tree, path: str, at: str) -> Errors:
    items = body.get("items") if isinstance(body.get("items"), dict) else None
    if isinstance(nested.get("items"), dict):
        if items is None:
            yield required(f"{at}.items", f"because it is defined in {path}.items")
        else:
            yield from _told(nested["items"], items, f"{path}.items", f"{at}.items")
    known = body.get("properties") or {}
    for name, inner in (nested.get("properties") or {}).items():
        if name in known:
            yield from _told(inner, known[name], f"{path}.properties[{name}]", f"{at}.properties[{name}]")
        else:
            yield required(f"{at}.properties[{name}]", f"because it is defined in {path}.properties[{name}]")
    for name in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(nested.get(name) or ()):
            yield from _told(inner, body, f"{path}.{name}[{index}]", at)
    if isinstance(nested.get("not"), dict):
        yield from _told(nested["not"], body, f"{path}.not", at)


# --- defaults --------------------------------------------------------------------------------------------------------


def _defaults(schema: Tree, path: str, *, root: bool = False) -> Errors:
    """A default must itself be a value that the schema takes, with nothing in it that would be pruned."""
    if "default" in schema and schema["default"] is not None:
        where = f"{path}.default"
        value = schema["default"]
        unknown: list[tuple[str | int, ...]] = []
        prune(value, shape_from(schema), (), unknown)
        if root:
            for name in ("apiVersion", "kind"):
                if type(value) is not dict or not value.get(name):
                    yield required(f"{where}.{name}")
        elif unknown:
            yield invalid(where, value, "must not have unknown fields")
        else:
            judged = {name: each for name, each in schema.items() if name != "default"}
            for problem in problems(default(value, schema), judged):
                yield problem._replace(path=f"{where}.{problem.path}" if problem.path not in ("", "<nil>") else where)
    for name, inner in (schema.get("properties") or {}).items():
        yield from _defaults(inner, f"{path}.properties[{name}]")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from _defaults(schema[name], f"{path}.{name}")
