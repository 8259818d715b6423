"""Decodes protobuf bodies, which kubectl, helm and the control plane send, into JSON trees.

A body is four magic bytes and an envelope that names the kind. The field table has the numbers of every message, so one
decoder serves all kinds. The result is what Go prints as JSON for the same object, so that the rest of the server does
not depend on the encoding: gogo encodes unset strings as empty ones, which are dropped where Go's JSON drops them.
"""

from __future__ import annotations

import binascii
import functools
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from allotment.model.fields import Field, TypeShape, shape_of
from allotment.model.quantity import Quantity, QuantityError
from allotment.model.quoting import quote
from allotment.model.trees import Tree

MAGIC: Final = b"k8s\x00"
_MAX_DEPTH: Final = 150  # nested messages; only JSON schemas can be nested without limit
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_VARINT, _FIXED64, _DELIMITED, _GROUP, _GROUP_END, _FIXED32 = range(6)
_WIRES: Final = {"bool": _VARINT, "int32": _VARINT, "int64": _VARINT, "uint8": _VARINT, "float64": _FIXED64}


class ProtobufError(ValueError):
    """Raised for a body that is not a protobuf object; the message is the API server's.

    ``api_version`` and ``kind``: those of the envelope, as far as it was decoded.
    """

    def __init__(self, message: str, api_version: str = "", kind: str = "") -> None:
        super().__init__(message)
        self.api_version = api_version
        self.kind = kind


def decode(body: bytes, api_version: str = "", kind: str = "") -> Tree:
    """Decode the object in a body. ``api_version`` and ``kind`` are the defaults for those of the envelope.

    >>> decode(b"k8s\\x00\\n\\x0f\\n\\x02v1\\x12\\tNamespace\\x12\\x05\\n\\x03\\n\\x01a")
    {'kind': 'Namespace', 'apiVersion': 'v1', 'metadata': {'name': 'a'}}
    """
    if not body:
        raise ProtobufError("empty data")
    if not body.startswith(MAGIC):
        prefix = " ".join(map(str, MAGIC))
        raise ProtobufError(f"provided data does not appear to be a protobuf message, expected prefix [{prefix}]")
    if len(body) == len(MAGIC):
        raise ProtobufError("empty body")
    type_meta, raw = _envelope(body)
    api_version, kind = type_meta.get("apiVersion") or api_version, type_meta.get("kind") or kind
    if not kind:
        raise ProtobufError("Object 'Kind' is missing in 'unstructured object has no kind'", api_version)
    shape = shape_of(api_version, kind) or shape_of("meta.k8s.io/v1", kind)
    if shape is None:
        message = f"no kind {quote(kind)} is registered for version {quote(api_version)} in scheme"
        raise ProtobufError(message, api_version, kind)
    tree: Tree = {"kind": kind, "apiVersion": api_version}
    try:
        _fill(tree, _message(shape), body, *raw, 0)
    except ProtobufError as error:
        raise ProtobufError(str(error), api_version, kind) from None
    return tree


def _envelope(body: bytes) -> tuple[Tree, tuple[int, int]]:
    """The type in the envelope, and the start and end of the object in the body."""
    type_meta: Tree = {}
    raw = (0, 0)
    offset, end = len(MAGIC), len(body)
    while offset < end:
        number, wire, start = _tag(body, offset, end, "Unknown")
        offset = _skip(body, start, end, wire)
        if wire == _DELIMITED and number in (1, 2):
            inner = _delimited(body, start, end)
            if number == 2:
                raw = inner
            else:
                _fill(type_meta, _TYPE_META, body, *inner, 0)
    return type_meta, raw


# --- message definitions -------------------------------------------------------------------------------------------


class _Message(NamedTuple):
    """The fields of a message by number. ``name``: for error messages."""

    name: str
    wire_fields: dict[int, _WireField]


class _WireField(NamedTuple):
    """One numbered field: its JSON name (empty if its fields belong to the parent), and its wire type.

    ``keeps_empty``: JSON includes it if empty. ``repeated``: every occurrence is a list item. ``shape``: the type of
    the value, of a list item, or of the map.
    """

    name: str
    shape: TypeShape
    wire: int
    keeps_empty: bool = False
    repeated: bool = False
    wrapped: bool = False
    inline: _Message | None = None


@functools.cache
def _message(shape: TypeShape) -> _Message:
    message = _Message(shape.bare_name, {})
    for name, field in shape.fields.items():
        wire_fields = message.wire_fields
        for number, struct_name in zip(field.embedded_numbers, field.embedded.split("."), strict=False):
            if number not in wire_fields:
                wire_fields[number] = _WireField("", shape, _DELIMITED, inline=_Message(struct_name, {}))
            inner = wire_fields[number].inline
            assert inner is not None
            wire_fields = inner.wire_fields
        if field.number:
            wire_fields[field.number] = _wire_field(name, field)
    return message


def _wire_field(name: str, field: Field) -> _WireField:
    shape = field.shape
    keeps_empty = field.always_printed or field.pointer
    if field.is_wrapped and shape.form == "slice":
        return _WireField(name, shape, _DELIMITED, keeps_empty, wrapped=True)
    if shape.form == "slice":
        assert shape.element is not None
        return _WireField(name, shape.element, _wire(shape.element), keeps_empty, repeated=True)
    return _WireField(name, shape, _wire(shape), keeps_empty, wrapped=field.is_wrapped)


def _wire(shape: TypeShape) -> int:
    return _WIRES.get(shape.form, _DELIMITED)


_STRING: Final = TypeShape("string", "string")
_INT32: Final = TypeShape("int32", "int32")
_INT64: Final = TypeShape("int64", "int64")
_BYTES: Final = TypeShape("bytes", "[]uint8")


def _synthetic_message(name: str, **wire_fields: tuple[int, TypeShape]) -> _Message:
    """A message without a struct in the table: the envelope's, and those of types with their own decoder."""
    values = {
        number: _WireField(field, shape, _wire(shape), keeps_empty=True)
        for field, (number, shape) in wire_fields.items()
    }
    return _Message(name, values)


_TYPE_META: Final = _synthetic_message("TypeMeta", apiVersion=(1, _STRING), kind=(2, _STRING))
_QUANTITY: Final = _synthetic_message("Quantity", string=(1, _STRING))
_TIMESTAMP: Final = _synthetic_message("Timestamp", seconds=(1, _INT64), nanos=(2, _INT32))
_INT_OR_STRING: Final = _synthetic_message("IntOrString", type=(1, _INT64), intVal=(2, _INT32), strVal=(3, _STRING))
_RAW: Final = _synthetic_message("RawExtension", raw=(1, _STRING))


# --- fields --------------------------------------------------------------------------------------------------------


def _fill(tree: Tree, message: _Message, data: bytes, offset: int, end: int, depth: int) -> None:
    """Decode the fields of a message into a tree, which can have fields of an earlier occurrence of the message."""
    if depth > _MAX_DEPTH:
        raise ProtobufError("proto: exceeded max recursion depth")
    wire_fields = message.wire_fields
    while offset < end:
        number, wire, offset = _tag(data, offset, end, message.name)
        wire_field = wire_fields.get(number)
        if wire_field is None:
            offset = _skip(data, offset, end, wire)
        elif wire != wire_field.wire:
            if not (wire == _DELIMITED and wire_field.repeated and wire_field.wire == _VARINT):
                raise ProtobufError(
                    f"proto: wrong wireType = {wire} for field {wire_field.name[:1].upper()}{wire_field.name[1:]}"
                )
            start, offset = _delimited(data, offset, end)
            tree.setdefault(wire_field.name, []).extend(_packed(wire_field.shape, data, start, offset))
        elif wire == _VARINT:
            bits, offset = _varint(data, offset, end)
            _put(tree, wire_field, _number(wire_field.shape.form, bits))
        elif wire == _FIXED64:
            start, offset = offset, offset + 8
            if offset > end:
                raise ProtobufError("unexpected EOF")
            _put(tree, wire_field, struct.unpack_from("<d", data, start)[0])
        else:
            start, offset = _delimited(data, offset, end)
            _put_delimited(tree, wire_field, data, start, offset, depth)


def _put_delimited(tree: Tree, wire_field: _WireField, data: bytes, start: int, end: int, depth: int) -> None:
    form = wire_field.shape.form
    if wire_field.inline is not None:
        _fill(tree, wire_field.inline, data, start, end, depth + 1)
    elif wire_field.repeated:
        tree.setdefault(wire_field.name, []).append(_value(wire_field.shape, data, start, end, depth, {}))
    elif form == "struct":
        existing = tree.get(wire_field.name)
        read = _value(wire_field.shape, data, start, end, depth, {} if existing is None else existing)
        if read or wire_field.keeps_empty:
            tree[wire_field.name] = read
    elif form == "map":
        key, value = _entry(wire_field, data, start, end, depth)
        tree.setdefault(wire_field.name, {})[key] = value
    elif wire_field.wrapped:
        tree.setdefault(wire_field.name, []).extend(_wrapped(data, start, end))
    else:
        _put(tree, wire_field, _value(wire_field.shape, data, start, end, depth, {}))


def _put(tree: Tree, wire_field: _WireField, value: Any) -> None:
    if wire_field.repeated:
        tree.setdefault(wire_field.name, []).append(value)
    elif value is None or not (value or wire_field.keeps_empty):
        tree.pop(wire_field.name, None)
    else:
        tree[wire_field.name] = value


def _entry(wire_field: _WireField, data: bytes, offset: int, end: int, depth: int) -> tuple[str, Any]:
    """The key and value of a map entry, each with its zero value if absent."""
    element = wire_field.shape.element
    assert element is not None
    key = ""
    value: Any = [] if wire_field.wrapped else _zero(element)
    while offset < end:
        number, wire, start = _tag(data, offset, end, "Entry")
        offset = _skip(data, start, end, wire)
        if number == 1 and wire == _DELIMITED:
            key = _text(data, *_delimited(data, start, end))
        elif number == 2 and wire == _DELIMITED:
            inner = _delimited(data, start, end)
            value = _wrapped(data, *inner) if wire_field.wrapped else _value(element, data, *inner, depth, {})
        elif number == 2 and wire == _VARINT:
            value = _number(element.form, _varint(data, start, end)[0])
    return key, value


def _wrapped(data: bytes, offset: int, end: int) -> list[str]:
    """A list of strings wrapped in a message, under field number 1."""
    values: list[str] = []
    while offset < end:
        number, wire, start = _tag(data, offset, end, "Items")
        offset = _skip(data, start, end, wire)
        if number == 1 and wire == _DELIMITED:
            values.append(_text(data, *_delimited(data, start, end)))
    return values


def _packed(shape: TypeShape, data: bytes, offset: int, end: int) -> list[Any]:
    values = []
    while offset < end:
        bits, offset = _varint(data, offset, end)
        values.append(_number(shape.form, bits))
    return values


def _zero(shape: TypeShape) -> Any:
    return {"struct": {}, "map": {}, "slice": [], "bool": False, "int32": 0, "int64": 0, "Quantity": "0"}.get(
        shape.form, ""
    )


def _number(form: str, bits: int) -> bool | int:
    if form == "bool":
        return bits != 0
    if form == "int32":
        bits &= 0xFFFFFFFF
        return bits - (1 << 32) if bits >> 31 else bits
    return bits - (1 << 64) if bits >> 63 else bits


def _value(shape: TypeShape, data: bytes, start: int, end: int, depth: int, into: Tree) -> Any:
    """A length-delimited value; ``None`` if JSON has no value for it."""
    form = shape.form
    if form == "string":
        return _text(data, start, end)
    if form == "struct":
        _fill(into, _message(shape), data, start, end, depth + 1)
        return into
    if form == "bytes":
        return binascii.b2a_base64(data[start:end], newline=False).decode("ascii")
    special = _SPECIAL.get(form)
    if special is None:
        raise ProtobufError(f"proto: cannot read {shape.name}")
    return special(shape, data, start, end, depth)


def _text(data: bytes, start: int, end: int) -> str:
    # Go strings contain any bytes, Go's JSON only valid UTF-8.
    return data[start:end].decode("utf-8", "replace")


# --- types with their own decoder ------------------------------------------------------------------------------------


def _quantity(_: TypeShape, data: bytes, start: int, end: int, depth: int) -> str:
    read: Tree = {}
    _fill(read, _QUANTITY, data, start, end, depth + 1)
    try:
        return str(Quantity.parse(read.get("string") or "0"))
    except QuantityError as error:
        raise ProtobufError(str(error)) from None


def _time(_: TypeShape, data: bytes, start: int, end: int, depth: int) -> str | None:
    read = _timestamp(data, start, end, depth)
    return None if read is None else read.strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20)


def _micro_time(_: TypeShape, data: bytes, start: int, end: int, depth: int) -> str | None:
    read = _timestamp(data, start, end, depth)
    return None if read is None else read.strftime("%Y-%m-%dT%H:%M:%S.%fZ").zfill(27)


def _timestamp(data: bytes, start: int, end: int, depth: int) -> datetime | None:
    if start == end:
        return None
    read: Tree = {}
    _fill(read, _TIMESTAMP, data, start, end, depth + 1)
    try:
        return _EPOCH + timedelta(seconds=read.get("seconds", 0), microseconds=read.get("nanos", 0) // 1000)
    except OverflowError:
        raise ProtobufError("Time.MarshalJSON: year outside of range [0,9999]") from None


def _int_or_string(_: TypeShape, data: bytes, start: int, end: int, depth: int) -> int | str:
    read: Tree = {}
    _fill(read, _INT_OR_STRING, data, start, end, depth + 1)
    variant = read.get("type", 0)
    if variant not in (0, 1):
        raise ProtobufError("impossible IntOrString.Type")
    value: int | str = read.get("strVal", "") if variant else read.get("intVal", 0)
    return value


def _raw(_: TypeShape, data: bytes, start: int, end: int, depth: int) -> Any:
    """JSON carried as bytes."""
    read: Tree = {}
    _fill(read, _RAW, data, start, end, depth + 1)
    text = read.get("raw")
    if not text:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtobufError(f"json: error calling MarshalJSON for type runtime.RawExtension: {error}") from None


def _schema_or_list(shape: TypeShape, data: bytes, start: int, end: int, depth: int) -> Any:
    read = _schema_union(shape, data, start, end, depth)
    return read["many"] if read.get("many") else read.get("schema")


def _schema_or_bool(shape: TypeShape, data: bytes, start: int, end: int, depth: int) -> Any:
    read = _schema_union(shape, data, start, end, depth, schema=2, allows=1)
    return read["schema"] if "schema" in read else read.get("allows", False)


def _schema_or_strings(shape: TypeShape, data: bytes, start: int, end: int, depth: int) -> Any:
    read = _schema_union(shape, data, start, end, depth, items=_STRING)
    return read["many"] if read.get("many") else read.get("schema")


def _schema_union(
    shape: TypeShape, data: bytes, start: int, end: int, depth: int,
    *, schema: int = 1, allows: int = 0, items: TypeShape | None = None,
) -> Tree:  # fmt: skip
    element = shape.element
    assert element is not None
    wire_fields = {schema: _WireField("schema", element, _DELIMITED, keeps_empty=True)}
    if allows:
        wire_fields[allows] = _WireField("allows", TypeShape("bool", "bool"), _VARINT, keeps_empty=True)
    else:
        wire_fields[2] = _WireField("many", items or element, _DELIMITED, repeated=True)
    read: Tree = {}
    _fill(read, _Message(shape.bare_name, wire_fields), data, start, end, depth + 1)
    return read


_SPECIAL: Final[dict[str, Callable[[TypeShape, bytes, int, int, int], Any]]] = {
    "Quantity": _quantity,
    "Time": _time,
    "MicroTime": _micro_time,
    "IntOrString": _int_or_string,
    "RawExtension": _raw,
    "FieldsV1": _raw,
    "JSON": _raw,
    "JSONSchemaPropsOrArray": _schema_or_list,
    "JSONSchemaPropsOrBool": _schema_or_bool,
    "JSONSchemaPropsOrStringArray": _schema_or_strings,
}


# --- wire format -----------------------------------------------------------------------------------------------------


def _tag(data: bytes, offset: int, end: int, message: str) -> tuple[int, int, int]:
    key, offset = _varint(data, offset, end)
    number, wire = (key & 0xFFFFFFFFFF) >> 3, key & 7
    if wire == _GROUP_END:
        raise ProtobufError(f"proto: {message}: wiretype end group for non-group")
    if not 0 < number < 1 << 31:
        raise ProtobufError(f"proto: {message}: illegal tag {number} (wire type {wire})")
    return number, wire, offset


def _varint(data: bytes, offset: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while offset < end:
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, offset
        shift += 7
        if shift >= 64:
            raise ProtobufError("proto: integer overflow")
    raise ProtobufError("unexpected EOF")


def _delimited(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Start and end of a value that is preceded by its length."""
    length, start = _varint(data, offset, end)
    if length >> 63:
        raise ProtobufError("proto: negative length found during unmarshaling")
    if length > end - start:
        raise ProtobufError("unexpected EOF")
    return start, start + length


def _skip(data: bytes, offset: int, end: int, wire: int) -> int:
    """The end offset of a value."""
    open_groups = 0
    while True:
        if wire == _VARINT:
            _, offset = _varint(data, offset, end)
        elif wire == _FIXED64:
            offset += 8
        elif wire == _DELIMITED:
            _, offset = _delimited(data, offset, end)
        elif wire == _GROUP:
            open_groups += 1
        elif wire == _GROUP_END:
            if not open_groups:
                raise ProtobufError("proto: unexpected end of group")
            open_groups -= 1
        elif wire == _FIXED32:
            offset += 4
        else:
            raise ProtobufError(f"proto: illegal wireType {wire}")
        if offset > end:
            raise ProtobufError("unexpected EOF")
        if not open_groups:
            return offset
        key, offset = _varint(data, offset, end)
        wire = key & 7
