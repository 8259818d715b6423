"""Evaluation of list, map and message literals."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from allotment.cel.evaluation import cost, timestamps
from allotment.cel.evaluation.objects import ROOTS, ObjectValue
from allotment.cel.evaluation.steps import COST, Frame, PlanStep, Run
from allotment.cel.evaluation.value_format import go_format
from allotment.cel.evaluation.values import (
    ABSENT,
    EMPTY_LIST,
    EMPTY_MAP,
    CelError,
    ListValue,
    MapValue,
    Optional,
    Uint,
    Value,
    map_key,
)

Fields = Mapping[str, Value]


def build_message(name: str, fields: Fields) -> Value:
    """The value of a message literal."""
    maker = _MESSAGE_BUILDERS.get(name)
    if maker is None:
        if name.partition(".")[0] in ROOTS:
            return ObjectValue(name, fields)
        raise CelError(f"unknown type '{name}'")
    return maker(fields)


def _wrapper(zero: Value) -> Callable[[Fields], Value]:
    return lambda fields: fields.get("value", zero)


def _narrow_integer(low: int, high: int, zero: Value, overflow: str) -> Callable[[Fields], Value]:
    def make(fields: Fields) -> Value:
        value = fields.get("value", zero)
        if not low <= value <= high:
            raise CelError(overflow)
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


def _dynamic_value(fields: Fields) -> Value:
    for value in fields.values():
        return value
    return None


_MESSAGE_BUILDERS: Final[dict[str, Callable[[Fields], Value]]] = {
    "google.protobuf.BoolValue": _wrapper(False),
    "google.protobuf.BytesValue": _wrapper(b""),
    "google.protobuf.DoubleValue": _wrapper(0.0),
    "google.protobuf.FloatValue": _float,
    "google.protobuf.Int64Value": _wrapper(0),
    "google.protobuf.Int32Value": _narrow_integer(-(2**31), 2**31 - 1, 0, "integer overflow"),
    "google.protobuf.UInt64Value": _wrapper(Uint(0)),
    "google.protobuf.UInt32Value": _narrow_integer(0, 2**32 - 1, Uint(0), "unsigned integer overflow"),
    "google.protobuf.StringValue": _wrapper(""),
    "google.protobuf.Duration": lambda fields: timestamps.duration(_nanoseconds(fields)),
    "google.protobuf.Timestamp": lambda fields: timestamps.timestamp(_nanoseconds(fields)),
    "google.protobuf.Struct": lambda fields: fields.get("fields", EMPTY_MAP),
    "google.protobuf.ListValue": lambda fields: fields.get("values", EMPTY_LIST),
    "google.protobuf.Value": _dynamic_value,
}


def list_literal(steps: Sequence[PlanStep], optional: frozenset[int]) -> Run:
    """``[a, ?b]``; ``optional`` contains the positions of the optional elements."""
    runs = tuple(step.run for step in steps)

    def run(frame: Frame) -> Value:
        items: list[Value] = []
        try:
            for position, compute in enumerate(runs):
                item = compute(frame)
                if position in optional:
                    if type(item) is not Optional:
                        raise CelError(
                            f"cannot initialize optional list element from non-optional value {go_format(item)}"
                        )
                    item = item.value
                    if item is ABSENT:
                        continue
                items.append(item)
        except CelError:
            frame[COST] += cost.LIST
            raise
        frame[COST] += cost.LIST
        return ListValue(items)

    return run


def map_literal(entries: Sequence[tuple[PlanStep, PlanStep, bool]]) -> Run:
    """``{k: v, ?o: w}`` from (key, value, is optional); the last of equal keys wins."""
    runs = tuple((key.run, value.run, optional) for key, value, optional in entries)

    def run(frame: Frame) -> Value:
        built: dict[Any, tuple[Value, Value]] = {}
        try:
            for compute_key, compute_value, optional in runs:
                key = compute_key(frame)
                value = compute_value(frame)
                if optional:
                    if type(value) is not Optional:
                        entry, found = go_format(key), go_format(value)
                        raise CelError(f"cannot initialize optional entry '{entry}' from non-optional value {found}")
                    value = value.value
                    if value is ABSENT:
                        built.pop(map_key(key), None)
                        continue
                built[map_key(key)] = (key, value)
        except CelError:
            frame[COST] += cost.MAP
            raise
        frame[COST] += cost.MAP
        return MapValue(built)

    return run


def message_literal(name: str, fields: Sequence[tuple[str, Run, bool]]) -> Run:
    """A message literal from (field, value, is optional)."""

    def run(frame: Frame) -> Value:
        values: dict[str, Value] = {}
        try:
            for field, compute, optional in fields:
                value = compute(frame)
                if optional:
                    if type(value) is not Optional:
                        raise CelError(
                            f"cannot initialize optional entry '{field}' from non-optional value {go_format(value)}"
                        )
                    value = value.value
                    if value is ABSENT:
                        values.pop(field, None)
                        continue
                values[field] = value
            result = build_message(name, values)
        except CelError:
            frame[COST] += cost.STRUCT
            raise
        frame[COST] += cost.STRUCT
        return result

    return run
