"""Message literals: ``google.protobuf.Int64Value{value: 1}`` and the other well-known types.

Nothing of a device is a message, and none of these is of use in a selector; they compile, so they must evaluate.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final

from allotment.cel.evaluation import timestamps
from allotment.cel.evaluation.values import EMPTY_LIST, EMPTY_MAP, Failure, Uint, Value

Fields = Mapping[str, Value]


def build(name: str, fields: Fields) -> Value:
    """The value of a message literal."""
    maker = _MAKERS.get(name)
    if maker is None:
        raise Failure(f"unknown type '{name}'")
    return maker(fields)


def _wrapper(zero: Value) -> Callable[[Fields], Value]:
    return lambda fields: fields.get("value", zero)


def _narrow(low: int, high: int, zero: Value, overflow: str) -> Callable[[Fields], Value]:
    def make(fields: Fields) -> Value:
        value = fields.get("value", zero)
        if not low <= value <= high:
            raise Failure(overflow)
        return value

    return make


def _float(fields: Fields) -> Value:
    value = fields.get("value", 0.0)
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _nanoseconds(fields: Fields) -> int:
    return int(fields.get("seconds", 0) * timestamps.SECOND + fields.get("nanos", 0))


def _value(fields: Fields) -> Value:
    for value in fields.values():
        return value
    return None


_MAKERS: Final[dict[str, Callable[[Fields], Value]]] = {
    "google.protobuf.BoolValue": _wrapper(False),
    "google.protobuf.BytesValue": _wrapper(b""),
    "google.protobuf.DoubleValue": _wrapper(0.0),
    "google.protobuf.FloatValue": _float,
    "google.protobuf.Int64Value": _wrapper(0),
    "google.protobuf.Int32Value": _narrow(-(2**31), 2**31 - 1, 0, "integer overflow"),
    "google.protobuf.UInt64Value": _wrapper(Uint(0)),
    "google.protobuf.UInt32Value": _narrow(0, 2**32 - 1, Uint(0), "unsigned integer overflow"),
    "google.protobuf.StringValue": _wrapper(""),
    "google.protobuf.Duration": lambda fields: timestamps.duration(_nanoseconds(fields)),
    "google.protobuf.Timestamp": lambda fields: timestamps.timestamp(_nanoseconds(fields)),
    "google.protobuf.Struct": lambda fields: fields.get("fields", EMPTY_MAP),
    "google.protobuf.ListValue": lambda fields: fields.get("values", EMPTY_LIST),
    "google.protobuf.Value": _value,
}
