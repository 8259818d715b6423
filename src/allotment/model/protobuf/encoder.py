"""JSON trees as protobuf bodies, byte for byte as Kubernetes' generated code writes them.

Every struct is compiled once, from the field table: its fields by number, each with the bytes that stand for it when it
is not set. For gogo writes what is no pointer always (an empty name is a name of length zero), lists item by item and
maps with their keys in order. Trees are in normal form; what the table has no number for is not in protobuf either.

An object's message is the same alone, in a list and in an event; only what is around it differs. So whoever has the
message of each object makes lists and events by joining (:func:`listed`, :func:`event`).
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
    """An object that says what it is, as a body. Raises LookupError for kinds that have no message.

    >>> encode({"kind": "LimitRange", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {"limits": None}})[:22]
    b'k8s\\x00\\n\\x10\\n\\x02v1\\x12\\nLimitRange'
    """
    api_version, kind = tree["apiVersion"], tree["kind"]
    shape = shape_of(api_version, kind) or shape_of("meta.k8s.io/v1", kind)
    if shape is None:
        raise LookupError(f"{kind} of {api_version} has no message")
    return envelope(api_version, kind, message(tree, shape))


def message(tree: Tree, shape: TypeShape) -> bytes:
    """The message of an object, with nothing around it."""
    return _struct(shape)(tree)


def metadata_message(tree: Tree) -> bytes:
    """The message of an object of which only the metadata is shown (PartialObjectMetadata), whatever its kind."""
    return _delimited(b"\n", _metadata()(tree["metadata"]))


def list_message(meta: Tree, items: Iterable[bytes]) -> bytes:
    """The message of a list (any list looks like this), from its metadata and its objects' messages."""
    parts = [_delimited(b"\n", _list_metadata()(meta))]
    for item in items:
        parts += b"\x12", _size(len(item)), item
    return b"".join(parts)


def envelope(api_version: str, kind: str, body: bytes) -> bytes:
    """A message as a body: after the magic bytes, what it is, the message, and two things that are never said."""
    return b"".join((_opening(api_version, kind), _size(len(body)), body, b"\x1a\x00\x22\x00"))


@lru_cache(maxsize=512)
def _opening(api_version: str, kind: str) -> bytes:
    return MAGIC + _delimited(b"\n", _text(b"\n", api_version) + _text(b"\x12", kind)) + b"\x12"


def watch_event(sort: str, body: bytes) -> bytes:
    """A watch event: its length in four bytes, its type, and the whole body of its object."""
    frame = _text(b"\n", sort) + _delimited(b"\x12", _delimited(b"\n", body))
    return len(frame).to_bytes(4) + frame


# --- the wire --------------------------------------------------------------------------------------------------------


def _size(number: int) -> bytes:
    return _BYTE[number] if number < 128 else _varint(number)


def _varint(number: int) -> bytes:
    """A number in groups of seven bits. Negative ones are as long as 64 bits are."""
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


class _Part(NamedTuple):
    """One numbered field: its name in JSON ("": its fields are the parent's own), its bytes when unset, and set."""

    name: str
    absent: bytes
    put: FieldEncoder


class _Struct:
    """How a struct is written. Compiled when it is first needed, because types may hold themselves."""

    __slots__ = ("_make", "_nested", "_parts")

    def __init__(self, make: Callable[[], list[_Part]]) -> None:
        self._make = make
        self._parts: list[_Part] | None = None
        self._nested = False

    def __call__(self, tree: Tree) -> bytes:
        parts = self._parts
        if parts is None:
            parts = self._parts = self._make()
            self._nested = not all(part.name for part in parts)
        get = tree.get
        if self._nested:
            return b"".join([
                put(tree) if not name else absent if (value := get(name)) is None else put(value)
                for name, absent, put in parts
            ])  # fmt: skip
        return b"".join([absent if (value := get(name)) is None else put(value) for name, absent, put in parts])


@cache
def _struct(shape: TypeShape) -> _Struct:
    return _Struct(partial(_parts, tuple(shape.fields.items()), 0))


def _parts(fields: Iterable[tuple[str, Field]], depth: int) -> list[_Part]:
    """The parts of a message by number; what is embedded deeper than ``depth`` makes messages of its own."""
    found: dict[int, _Part] = {}
    embedded: dict[int, list[tuple[str, Field]]] = {}
    for name, field in fields:
        if len(field.embedded_numbers) > depth:
            embedded.setdefault(field.embedded_numbers[depth], []).append((name, field))
        elif field.number and field.embedded != "TypeMeta":  # an object's kind and version are in the envelope
            found[field.number] = _part(name, field)
    for number, inner in embedded.items():
        body = _Struct(partial(_parts, tuple(inner), depth + 1))
        found[number] = _Part("", b"", partial(_inner, _tag(number, _DELIMITED), body))
    return [found[number] for number in sorted(found)]


def _part(name: str, field: Field) -> _Part:
    shape, tag = field.shape, _tag(field.number, _DELIMITED)
    if field.is_wrapped and shape.form == "map":
        return _Part(name, b"", partial(_map, tag, partial(_wrapped, b"\x12"), _nothing))
    if field.is_wrapped:
        return _Part(name, b"", partial(_wrapped, tag))
    put, zero = _field(field.number, shape)
    return _Part(name, b"" if field.pointer else zero(), put)


def _nothing() -> bytes:
    return b""


def _field(number: int, shape: TypeShape) -> tuple[FieldEncoder, Callable[[], bytes]]:
    """How a value is written under a number, and how Go's zero value is."""
    form = shape.form
    if form in _NUMBERS:
        wire, put, zero = _NUMBERS[form]
        tag = _tag(number, wire)
        return partial(put, tag), lambda: tag + zero
    tag = _tag(number, _DELIMITED)
    empty = tag + b"\x00"
    if form == "string":
        return partial(_text, tag), lambda: empty
    if form == "bytes":
        return partial(_bytes, tag), _nothing
    if form == "struct":
        put = partial(_inner, tag, _struct(shape))
        return put, lambda: put({})
    if form == "slice":
        assert shape.element is not None
        return partial(_items, _field(number, shape.element)[0]), _nothing
    if form == "map":
        assert shape.element is not None
        return partial(_map, tag, *_field(2, shape.element)), _nothing
    if shape.element is not None:
        return partial(_inner, tag, partial(_EITHER[form], _struct(shape.element))), lambda: empty
    body, unset = _SPECIAL[form]
    return partial(_inner, tag, body), lambda: _delimited(tag, unset)


def _inner(tag: bytes, body: FieldEncoder, value: Any) -> bytes:
    return _delimited(tag, body(value))


def _items(put: FieldEncoder, values: list[Any]) -> bytes:
    return b"".join([put(value) for value in values])


def _map(tag: bytes, put: FieldEncoder, zero: Callable[[], bytes], values: Tree) -> bytes:
    entries = []
    for key in sorted(values):
        value = values[key]
        entries.append(_delimited(tag, _text(b"\n", key) + (zero() if value is None else put(value))))
    return b"".join(entries)


def _wrapped(tag: bytes, values: list[str]) -> bytes:
    """A list that is a message of its own."""
    return _delimited(tag, b"".join([_text(b"\n", value) for value in values]))


def _bytes(tag: bytes, value: str) -> bytes:
    return _delimited(tag, binascii.a2b_base64(value))


def _number(tag: bytes, value: int) -> bytes:
    return tag + (_BYTE[value] if 0 <= value < 128 else _varint(value))


def _float(tag: bytes, value: float) -> bytes:
    return tag + struct.pack("<d", value)


#: Of numbers: what they look like on the wire, how they are written (True is 1), and their zero.
_NUMBERS: Final[dict[str, tuple[int, Callable[[bytes, Any], bytes], bytes]]] = {
    "bool": (_VARINT, _number, b"\x00"),
    "int32": (_VARINT, _number, b"\x00"),
    "int64": (_VARINT, _number, b"\x00"),
    "float64": (_FIXED64, _float, bytes(8)),
}


# --- types that have messages of their own ---------------------------------------------------------------------------


def _quantity(value: Any) -> bytes:
    return _text(b"\n", str(value))


@lru_cache(maxsize=4096)  # the same few times stand in many objects
def _time(value: str) -> bytes:
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None or moment == _UNSET:
        return b""
    since = moment - _EPOCH
    seconds = since.days * 86_400 + since.seconds
    return b"\x08" + _varint(seconds) + b"\x10" + _varint(since.microseconds * 1000)


_UNSET: Final = datetime(1, 1, 1, tzinfo=UTC)


def _int_or_string(value: int | str) -> bytes:
    if isinstance(value, int):
        return b"\x08\x00\x10" + _varint(value) + b"\x1a\x00"
    return b"\x08\x01\x10\x00" + _text(b"\x1a", value)


def _raw(value: Any) -> bytes:
    """JSON carried as bytes."""
    return _delimited(b"\n", _json(value))


#: How a value is written, and what is inside the message of one that is not set.
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
        return b"".join([_delimited(b"\x12", schema(one)) for one in value])
    return _delimited(b"\n", schema(value))


def _schema_or_bool(schema: FieldEncoder, value: Any) -> bytes:
    if isinstance(value, bool):
        return b"\x08\x01" if value else b"\x08\x00"
    return b"\x08\x01" + _delimited(b"\x12", schema(value))


def _schema_or_strings(schema: FieldEncoder, value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join([_text(b"\x12", one) for one in value])
    return _delimited(b"\n", schema(value))


#: Types that hold a schema or something else, by the schema's writer.
_EITHER: Final[dict[str, Callable[[FieldEncoder, Any], bytes]]] = {
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
