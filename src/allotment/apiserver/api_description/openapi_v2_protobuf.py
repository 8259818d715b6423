"""The OpenAPI v2 document in protobuf, the only encoding in which kubectl requests it.

kubectl checks manifests against it where v3 describes no object: a ``List`` (what ``kubectl get -o yaml`` prints for
several objects) and kinds that the server does not serve. Messages are those of gnostic's ``OpenAPIv2.proto``: as
tables here, with the parts that the document uses. In them every free-form value is an ``Any`` that holds YAML (JSON is
YAML), and maps are lists of names with values, so that order survives.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from allotment.model.trees import Tree

Encoder = Callable[[Any], bytes]

#: The media type of the response. Clients request it under an older name that is not a valid media type.
MEDIA_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_OLD_MEDIA_TYPE: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"

_EXTENSION: Final = "x-"


def is_accepted(accept: str) -> bool:
    """Whether the client accepts this encoding."""
    return MEDIA_TYPE in accept or _OLD_MEDIA_TYPE in accept


def openapi_v2_protobuf(document: Tree) -> bytes:
    """Encode a document."""
    return _message("Document")(document)


# --- the wire ---------------------------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    encoded = bytearray()
    number &= (1 << 64) - 1
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _delimited(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _any(value: Any) -> bytes:
    return _delimited(2, msgspec.json.encode(value) + b"\n")


# --- messages ---------------------------------------------------------------------------------------------------------


def _string(number: int) -> Encoder:
    return lambda value: _delimited(number, value.encode()) if value else b""


def _strings(number: int) -> Encoder:
    return lambda values: b"".join(_delimited(number, value.encode()) for value in values)


def _flag(number: int) -> Encoder:
    return lambda value: _varint(number << 3) + b"\x01" if value else b""


def _count(number: int) -> Encoder:
    return lambda value: _varint(number << 3) + _varint(value)


def _real(number: int) -> Encoder:
    return lambda value: _varint(number << 3 | 1) + struct.pack("<d", value)


def _single(number: int, body: str | Encoder) -> Encoder:
    return lambda value: _delimited(number, _encoder(body)(value))


def _many(number: int, body: str | Encoder) -> Encoder:
    return lambda values: b"".join(_delimited(number, _encoder(body)(value)) for value in values)


def _named(number: int, body: str | Encoder) -> Encoder:
    """A map as a list of name and value."""

    def encode(values: Mapping[str, Any]) -> bytes:
        write = _encoder(body)
        return b"".join(
            _delimited(number, _delimited(1, name.encode()) + _delimited(2, write(value)))
            for name, value in values.items()
        )

    return encode


def _inside(*wrappers: int, body: str) -> Encoder:
    """A message wrapped in a oneof message."""

    def encode(value: Any) -> bytes:
        made = _encoder(body)(value)
        for number in reversed(wrappers):
            made = _delimited(number, made)
        return made

    return encode


def _encoder(body: str | Encoder) -> Encoder:
    return _message(body) if isinstance(body, str) else body


#: The location of a parameter, and its message within NonBodyParameter.
_PARAMETER_LOCATIONS: Final = {
    "header": (1, "PlainParameter"),
    "query": (3, "QueryParameter"),
    "path": (4, "PlainParameter"),
}


def _parameter(value: Tree) -> bytes:
    if "$ref" in value:
        return _delimited(2, _string(1)(value["$ref"]))
    if value["in"] == "body":
        return _inside(1, 1, body="BodyParameter")(value)
    number, body = _PARAMETER_LOCATIONS[value["in"]]
    return _inside(1, 2, number, body=body)(value)


def _additional(value: bool | Tree) -> bytes:
    return _flag(2)(value) if isinstance(value, bool) else _single(1, "Schema")(value)


def _items(value: Tree) -> bytes:
    return _delimited(1, _message("Schema")(value))


def _types(value: str | list[str]) -> bytes:
    return _strings(1)([value] if isinstance(value, str) else value)


# fmt: off
_MESSAGES: Final[Mapping[str, Mapping[str, Encoder]]] = {
    "Document": {
        "swagger": _string(1), "info": _single(2, "Info"), "paths": _single(8, _named(2, "PathItem")),
        "definitions": _single(9, _named(1, "Schema")), "security": _many(12, _named(1, _strings(1))),
        "securityDefinitions": _single(13, _named(1, _inside(2, body="ApiKey"))), "x-": _named(16, _any),
    },
    "Info": {"title": _string(1), "version": _string(2), "description": _string(3)},
    "ApiKey": {"type": _string(1), "name": _string(2), "in": _string(3), "description": _string(4)},
    "PathItem": {
        "get": _single(2, "Operation"), "put": _single(3, "Operation"), "post": _single(4, "Operation"),
        "delete": _single(5, "Operation"), "options": _single(6, "Operation"), "head": _single(7, "Operation"),
        "patch": _single(8, "Operation"), "parameters": _many(9, _parameter), "x-": _named(10, _any),
    },
    "Operation": {
        "tags": _strings(1), "description": _string(3), "operationId": _string(5), "produces": _strings(6),
        "consumes": _strings(7), "parameters": _many(8, _parameter),
        "responses": _single(9, _named(1, _inside(1, body="Response"))), "schemes": _strings(10),
        "deprecated": _flag(11), "x-": _named(13, _any),
    },
    "Response": {"description": _string(1), "schema": _single(2, _inside(1, body="Schema"))},
    "BodyParameter": {
        "description": _string(1), "name": _string(2), "in": _string(3), "required": _flag(4),
        "schema": _single(5, "Schema"),
    },
    "QueryParameter": {
        "required": _flag(1), "in": _string(2), "description": _string(3), "name": _string(4), "type": _string(6),
        "format": _string(7), "uniqueItems": _flag(20),
    },
    "PlainParameter": {
        "required": _flag(1), "in": _string(2), "description": _string(3), "name": _string(4), "type": _string(5),
        "format": _string(6), "uniqueItems": _flag(19),
    },
    "Schema": {
        "$ref": _string(1), "format": _string(2), "title": _string(3), "description": _string(4),
        "default": _single(5, _any), "multipleOf": _real(6), "maximum": _real(7), "exclusiveMaximum": _flag(8),
        "minimum": _real(9), "exclusiveMinimum": _flag(10), "maxLength": _count(11), "minLength": _count(12),
        "pattern": _string(13),
        "maxItems": _count(14), "minItems": _count(15), "uniqueItems": _flag(16), "maxProperties": _count(17),
        "minProperties": _count(18), "required": _strings(19), "enum": _many(20, _any),
        "additionalProperties": _single(21, _additional), "type": _single(22, _types), "items": _single(23, _items),
        "properties": _single(25, _named(1, "Schema")), "x-": _named(31, _any),
    },
}
# fmt: on


@cache
def _message(name: str) -> Encoder:
    fields = _MESSAGES[name]
    extensions = fields.get(_EXTENSION)

    def encode(value: Tree) -> bytes:
        made = [fields[key](inner) for key, inner in value.items() if key in fields]
        if extensions is not None:
            made.append(extensions({key: inner for key, inner in value.items() if key.startswith(_EXTENSION)}))
        return b"".join(made)

    return encode
