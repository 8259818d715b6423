"""Encodes JSON trees as protobuf bodies, byte for byte as Kubernetes' generated code does.

Every struct is compiled once from the field table: its fields by number, each with its bytes if unset, because gogo
always encodes fields that are not pointers (an empty name is a name of length zero). Lists are encoded item by item and
maps in key order. Trees must be in normal form; fields without a number in the table are not encoded.

The message of an object is the same alone, in a list and in an event. Lists and events are therefore joined from the
messages of their objects (:func:`list_message`, :func:`watch_event`).
"""

from __future__ import annotations

import binascii
import struct
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from typing import Any, Final, NamedTuple

import msgspec

from allotment.model.fields import Field, TypeShape, shape_of
from allotment.model.protobuf.decoder import MAGIC
from allotment.model.trees import Tree

FieldEncoder = Callable[[Any], bytes]

_VARINT, _FIXED64, _DELIMITED = 0, 1, 2
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_BYTE: Final = tuple(bytes((number,)) for number in range(256))

_json = msgspec.json.Encoder().encode


def encode(tree: Tree) -> bytes:
    """Encode an object with ``kind`` and ``apiVersion`` as a body. Raises LookupError for kinds without a message.

    >>> encode({"kind": "LimitRange", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {"limits": None}})[:22]
    b'k8s\\x00\\n\\x10\\n\\x02v1\\x12\\nLimitRange'
    """
    api_version, kind = tree["apiVersion"], tree["kind"]
    shape = shape_of(api_version, kind) or shape_of("meta.k8s.io/v1", kind)
    if shape is None:
        raise LookupError(f"{kind} of {api_version} has no message")
    return envelope(api_version, kind, message(tree, shape))


def message(tree: Tree, shape: TypeShape) -> bytes:
    """The message of an object, without envelope."""
    return _struct(shape)(tree)


def metadata_message(tree: Tree) -> bytes:
    """The message of an object of any kind as PartialObjectMetadata."""
    return _delimited(b"\n", _metadata()(tree["metadata"]))


def list_message(meta: Tree, items: Iterable[bytes]) -> bytes:
    """The message of a list of any kind, from its metadata and the messages of its objects."""
    parts = [_delimited(b"\n", _list_metadata()(meta))]
    for item in items:
        parts += b"\x12", _size(len(item)), item
    return b"".join(parts)


def envelope(api_version: str, kind: str, body: bytes) -> bytes:
    """A body from a message: magic bytes, type, message, and an empty content encoding and content type."""
    return b"".join((_envelope_header(api_version, kind), _size(len(body)), body, b"\x1a\x00\x22\x00"))


@lru_cache(maxsize=512)
def _envelope_header(api_version: str, kind: str) -> bytes:
    return MAGIC + _delimited(b"\n", _text(b"\n", api_version) + _text(b"\x12", kind)) + b"\x12"


def watch_event(event_type: str, body: bytes) -> bytes:
    """A watch event: its length in four bytes, its type, and the body of its object."""
    frame = _text(b"\n", event_type) + _delimited(b"\x12", _delimited(b"\n", body))
    return len(frame).to_bytes(4) + frame


# --- wire format -----------------------------------------------------------------------------------------------------


def _size(number: int) -> bytes:
    return _BYTE[number] if number < 128 else _varint(number)


def _varint(number: int) -> bytes:
    """A number in groups of seven bits; negative numbers are encoded as 64 bits."""
    number &= 0xFFFFFFFFFFFFFFFF
    groups = []
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def _tag(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _delimited(tag: bytes, body: bytes) -> bytes:
    size = len(body)
    return tag + (_BYTE[size] if size < 128 else _varint(size)) + body


def _text(tag: bytes, text: str) -> bytes:
    return _delimited(tag, text.encode())


# --- structs ---------------------------------------------------------------------------------------------------------


class _EncodedField(NamedTuple):
    """One numbered field: its JSON name (empty if its fields belong to the parent), its bytes if unset, its encoder."""

    name: str
    unset: bytes
    encode_value: FieldEncoder


class _StructEncoder:
    """The encoder of a struct, compiled on first use, because types can be recursive."""

    __slots__ = ("_compile", "_fields", "_has_embedded")

    def __init__(self, compile_fields: Callable[[], list[_EncodedField]]) -> None:
        self._compile = compile_fields
        self._fields: list[_EncodedField] | None = None
        self._has_embedded = False

    def __call__(self, tree: Tree) -> bytes:
        fields = self._fields
        if fields is None:
            fields = self._fields = self._compile()
            self._has_embedded = not all(field.name for field in fields)
        get = tree.get
        if self._has_embedded:
            return b"".join([
                encode_value(tree) if not name else unset if (value := get(name)) is None else encode_value(value)
                for name, unset, encode_value in fields
            ])  # fmt: skip
        return b"".join(
            [unset if (value := get(name)) is None else encode_value(value) for name, unset, encode_value in fields]
        )


@cache
def _struct(shape: TypeShape) -> _StructEncoder:
    return _StructEncoder(partial(_encoded_fields, tuple(shape.fields.items()), 0))


def _encoded_fields(fields: Iterable[tuple[str, Field]], depth: int) -> list[_EncodedField]:
    """The fields of a message by number; structs embedded deeper than ``depth`` become nested messages."""
    by_number: dict[int, _EncodedField] = {}
    embedded: dict[int, list[tuple[str, Field]]] = {}
    for name, field in fields:
        if len(field.embedded_numbers) > depth:
            embedded.setdefault(field.embedded_numbers[depth], []).append((name, field))
        elif field.number and field.embedded != "TypeMeta":  # an object's kind and version are in the envelope
            by_number[field.number] = _encoded_field(name, field)
    for number, inner in embedded.items():
        body = _StructEncoder(partial(_encoded_fields, tuple(inner), depth + 1))
        by_number[number] = _EncodedField("", b"", partial(_inner, _tag(number, _DELIMITED), body))
    return [by_number[number] for number in sorted(by_number)]


def _encoded_field(name: str, field: Field) -> _EncodedField:
    shape, tag = field.shape, _tag(field.number, _DELIMITED)
    if field.is_wrapped and shape.form == "map":
        return _EncodedField(name, b"", partial(_map, tag, partial(_wrapped, b"\x12"), _no_bytes))
    if field.is_wrapped:
        return _EncodedField(name, b"", partial(_wrapped, tag))
    encode_value, zero = _field(field.number, shape)
    return _EncodedField(name, b"" if field.pointer else zero(), encode_value)


def _no_bytes() -> bytes:
    return b""


def _field(number: int, shape: TypeShape) -> tuple[FieldEncoder, Callable[[], bytes]]:
    """The encoders of a value under a field number, and of Go's zero value."""
    form = shape.form
    if form in _NUMBERS:
        wire, encode_value, zero = _NUMBERS[form]
        tag = _tag(number, wire)
        return partial(encode_value, tag), lambda: tag + zero
    tag = _tag(number, _DELIMITED)
    empty = tag + b"\x00"
    if form == "string":
        return partial(_text, tag), lambda: empty
    if form == "bytes":
        return partial(_bytes, tag), _no_bytes
    if form == "struct":
        encode_value = partial(_inner, tag, _struct(shape))
        return encode_value, lambda: encode_value({})
    if form == "slice":
        assert shape.element is not None
        return partial(_items, _field(number, shape.element)[0]), _no_bytes
    if form == "map":
        assert shape.element is not None
        return partial(_map, tag, *_field(2, shape.element)), _no_bytes
    if shape.element is not None:
        return partial(_inner, tag, partial(_UNIONS[form], _struct(shape.element))), lambda: empty
    body, unset = _SPECIAL[form]
    return partial(_inner, tag, body), lambda: _delimited(tag, unset)


def _inner(tag: bytes, body: FieldEncoder, value: Any) -> bytes:
    return _delimited(tag, body(value))


def _items(encode_value: FieldEncoder, values: list[Any]) -> bytes:
    return b"".join([encode_value(value) for value in values])


def _map(tag: bytes, encode_value: FieldEncoder, zero: Callable[[], bytes], values: Tree) -> bytes:
    entries = []
    for key in sorted(values):
        value = values[key]
        entries.append(_delimited(tag, _text(b"\n", key) + (zero() if value is None else encode_value(value))))
    return b"".join(entries)


def _wrapped(tag: bytes, values: list[str]) -> bytes:
    """A list of strings wrapped in a message."""
    return _delimited(tag, b"".join([_text(b"\n", value) for value in values]))


def _bytes(tag: bytes, value: str) -> bytes:
    return _delimited(tag, binascii.a2b_base64(value))


def _number(tag: bytes, value: int) -> bytes:
    return tag + (_BYTE[value] if 0 <= value < 128 else _varint(value))


def _float(tag: bytes, value: float) -> bytes:
    return tag + struct.pack("<d", value)


#: Wire type, encoder (True is 1) and zero value of number types.
_NUMBERS: Final[dict[str, tuple[int, Callable[[bytes, Any], bytes], bytes]]] = {
    "bool": (_VARINT, _number, b"\x00"),
    "int32": (_VARINT, _number, b"\x00"),
    "int64": (_VARINT, _number, b"\x00"),
    "float64": (_FIXED64, _float, bytes(8)),
}


# --- types with their own encoder ------------------------------------------------------------------------------------


def _quantity(value: Any) -> bytes:
    return _text(b"\n", str(value))


@lru_cache(maxsize=4096)  # many objects contain the same times
def _time(value: str) -> bytes:
    time = datetime.fromisoformat(value)
    if time.tzinfo is None or time == _UNSET:
        return b""
    elapsed = time - _EPOCH
    seconds = elapsed.days * 86_400 + elapsed.seconds
    return b"\x08" + _varint(seconds) + b"\x10" + _varint(elapsed.microseconds * 1000)


_UNSET: Final = datetime(1, 1, 1, tzinfo=UTC)


def _int_or_string(value: int | str) -> bytes:
    if isinstance(value, int):
        return b"\x08\x00\x10" + _varint(value) + b"\x1a\x00"
    return b"\x08\x01\x10\x00" + _text(b"\x1a", value)


def _raw(value: Any) -> bytes:
    """JSON carried as bytes."""
    return _delimited(b"\n", _json(value))


#: The encoder of a type, and the content of its message if unset.
_SPECIAL: Final[dict[str, tuple[FieldEncoder, bytes]]] = {
    "Quantity": (_quantity, b"\n\x010"),
    "Time": (_time, b""),
    "MicroTime": (_time, b""),
    "IntOrString": (_int_or_string, _int_or_string(0)),
    "RawExtension": (_raw, b""),
    "FieldsV1": (_raw, b""),
    "JSON": (_raw, b""),
}


def _schema_or_list(schema: FieldEncoder, value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join([_delimited(b"\x12", schema(item)) for item in value])
    return _delimited(b"\n", schema(value))


def _schema_or_bool(schema: FieldEncoder, value: Any) -> bytes:
    if isinstance(value, bool):
        return b"\x08\x01" if value else b"\x08\x00"
    return b"\x08\x01" + _delimited(b"\x12", schema(value))


def _schema_or_strings(schema: FieldEncoder, value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join([_text(b"\x12", item) for item in value])
    return _delimited(b"\n", schema(value))


#: Types that contain a schema or another value; the first argument is the encoder of the schema.
_UNIONS: Final[dict[str, Callable[[FieldEncoder, Any], bytes]]] = {
    "JSONSchemaPropsOrArray": _schema_or_list,
    "JSONSchemaPropsOrBool": _schema_or_bool,
    "JSONSchemaPropsOrStringArray": _schema_or_strings,
}


@cache
def _list_metadata() -> FieldEncoder:
    return _struct(_shape_of_field("meta.k8s.io/v1", "Status", "metadata"))


@cache
def _metadata() -> FieldEncoder:
    return _struct(_shape_of_field("v1", "Namespace", "metadata"))


def _shape_of_field(api_version: str, kind: str, name: str) -> TypeShape:
    shape = shape_of(api_version, kind)
    assert shape is not None, "the table has it"
    return shape.fields[name].shape
