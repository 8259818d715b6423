"""Formats values as Go does, because Kubernetes' messages contain its internal Go values.

There are two notations. A plain Go ``string`` is quoted with ``%q``; all other values except numbers and booleans are
encoded by ``encoding/json`` with Go field names (internal types have no JSON tags). JSON escapes ``<``, ``>`` and
``&``, ``%q`` escapes characters that are not printable. Named Go string types (an effect, an allocation mode) are
encoded as JSON; :class:`GoNamedString` marks them.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

import msgspec

from allotment.model import meta, resource
from allotment.model.fields import GROUP, kinds_of, shape_of
from allotment.model.quantity import Quantity

_HTML = str.maketrans({"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"})


class GoNamedString(str):
    """A string of a named Go type, which messages contain as JSON."""

    __slots__ = ()


class GoValue(NamedTuple):
    """A value as the Go types of a release have it: without the fields that the release does not have.

    ``written``: the tree that a client sent for it. Lists and maps that are empty there are empty in Go, not nil.
    """

    value: msgspec.Struct
    kube: str
    written: object = None


class GoStruct(dict[str, Any]):
    """The fields of a Go struct in order; other mappings are Go maps, which are sorted by key."""


def size(text: str) -> int:
    """The length in bytes, which Kubernetes' limits refer to."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def float_text(number: float) -> str:
    """A float as Go's ``%v`` prints it.

    >>> float_text(0.5), float_text(2000000.5), float_text(3.0), float_text(1e-7)
    ('0.5', '2.0000005e+06', '3', '1e-07')
    """
    shortest = repr(number)
    digits, exponent = Decimal(shortest).normalize().as_tuple().digits, Decimal(shortest).adjusted()
    if -5 < exponent < 6:
        return shortest.removesuffix(".0")
    mantissa = f"{digits[0]}" + (f".{''.join(map(str, digits[1:]))}" if len(digits) > 1 else "")
    sign = "-" if number < 0 else ""
    return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def json_text(value: object, kube: str = "", written: object = None) -> str:
    """The result of ``json.Marshal`` for the Go value that corresponds to ``value``.

    ``kube``: the release whose types are used; without one, they have the fields of all releases. ``written``: see
    `GoValue`.

    >>> print(json_text(resource.DeviceToleration(key="a", operator="Exists")))
    {"Key":"a","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}
    >>> print(json_text([2e6, 1e-7, -0.0, 1e21]))
    [2000000,1e-7,-0,1e+21]
    """
    if isinstance(value, str):
        return _json_string(value)
    if isinstance(value, Quantity):
        return _json_string(str(value))
    if isinstance(value, GoValue):
        return json_text(value.value, value.kube, value.written)
    if isinstance(value, msgspec.Struct):
        return "{" + ",".join(_members(value, kube, written if isinstance(written, dict) else {})) + "}"
    if isinstance(value, tuple | list):
        items = written if isinstance(written, list) and len(written) == len(value) else [None] * len(value)
        return "[" + ",".join(json_text(item, kube, tree) for item, tree in zip(value, items, strict=True)) + "]"
    if isinstance(value, Mapping):
        keys = value if isinstance(value, GoStruct) else sorted(value)
        return "{" + ",".join(f"{_json_string(key)}:{json_text(value[key], kube)}" for key in keys) + "}"
    return _json_float(value) if isinstance(value, float) else json.dumps(value)


def _json_float(number: float) -> str:
    if 1e-6 <= abs(number) < 1e21 or not number:
        return format(Decimal(repr(number)), "f").removesuffix(".0")
    return json.dumps(number).replace("e-0", "e-")


def _json_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).translate(_HTML)


def raw_json(value: object) -> str:
    """A ``RawExtension``: compact JSON with keys in the order received."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# --- Go field names --------------------------------------------------------------------------------------------------

#: Go field names that are not the capitalized JSON name, in Go's order if that differs from the order of the value.
_RENAMED: dict[type[msgspec.Struct], dict[str, str]] = {
    resource.DeviceAttribute: {
        "int_": "IntValue",
        "bool_": "BoolValue",
        "string": "StringValue",
        "version": "VersionValue",
        "ints": "IntValues",
        "bools": "BoolValues",
        "strings": "StringValues",
        "versions": "VersionValues",
    },
    resource.DeviceSelector: {"cel": "CEL"},
    resource.NetworkDeviceData: {"interface_name": "InterfaceName", "ips": "IPs"},
    resource.ResourceClaimConsumerReference: {
        "api_group": "APIGroup",
        "resource": "Resource",
        "name": "Name",
        "uid": "UID",
    },
}
#: Types of meta/v1: they have JSON tags in Go and are encoded with their JSON names.
_TAGGED = (meta.ObjectMeta, meta.OwnerReference, meta.Condition)
#: Fields that are encoded even if empty (no ``omitempty`` in Go).
_ALWAYS = {
    meta.OwnerReference: ("api_version", "kind", "name", "uid"),
    meta.Condition: ("type", "status", "last_transition_time", "reason", "message"),
}
#: Fields that are raw JSON in Go.
_RAW = {(resource.OpaqueDeviceConfiguration, "parameters"), (resource.AllocatedDeviceStatus, "data")}


@cache
def _field_plan(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, str, bool], ...]:
    """For each field: the attribute, the JSON name, the Go name, and whether an empty value is nil."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    renamed = _RENAMED.get(kind, {})
    order = [*renamed, *(name for name in fields if name not in renamed)]
    plan = []
    for name in order:
        wire = fields[name].encode_name
        plan.append((name, wire, renamed.get(name, wire[:1].upper() + wire[1:]), fields[name].default is not None))
    return tuple(plan)


@cache
def _known_fields(kube: str) -> Mapping[str, frozenset[str]]:
    """The JSON names of the fields that a release has, by the Go name of their type."""
    known: dict[str, frozenset[str]] = {}
    versions = (f"{GROUP}/{version}" for version in ("v1", "v1beta2", "v1beta1", "v1alpha3"))  # v1 where it exists
    pending = deque(shape_of(version, kind, kube) for version in versions for kind in kinds_of(version, kube))
    while pending:
        shape = pending.popleft()
        if shape is None:
            continue
        name = shape.bare_name
        if shape.fields and name not in known:
            known[name] = frozenset(shape.fields)
            pending.extend(field.shape for field in shape.fields.values())
        elif shape.element is not None:
            pending.append(shape.element)
    return known


@cache
def _field_plan_of(kind: type[msgspec.Struct], kube: str) -> tuple[tuple[str, str, str, bool], ...]:
    """``_field_plan`` without the fields that a release does not have."""
    known = _known_fields(kube).get(kind.__name__) if kube else None
    if known is None:
        return _field_plan(kind)
    return tuple(plan for plan in _field_plan(kind) if plan[1] in known)


def _members(value: msgspec.Struct, kube: str, written: dict[str, Any]) -> list[str]:
    kind = type(value)
    if isinstance(value, _TAGGED):
        return _tagged_members(value)
    members = []
    for name, wire, go_name, empty_is_nil in _field_plan_of(kind, kube):
        item: Any = getattr(value, name)
        if kind is resource.ResourceClaimTemplateSpec and name == "metadata":
            members.extend(_tagged_members(item))  # embedded in Go: its fields are inlined
            continue
        if (kind, name) in _RAW:
            text = raw_json(item).translate(_HTML)
        elif empty_is_nil and isinstance(item, tuple | dict) and not item and written.get(wire) is None:
            text = "null"
        else:
            text = json_text(item, kube, written.get(wire))
        members.append(f'"{go_name}":{text}')
    return members


def _tagged_members(value: msgspec.Struct) -> list[str]:
    always = _ALWAYS.get(type(value), ())
    return [
        f'"{field.encode_name}":{json_text(item)}'
        for field in msgspec.structs.fields(type(value))
        if (item := getattr(value, field.name)) != _default(field) or field.name in always
    ]


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default_factory() if field.default is msgspec.NODEFAULT else field.default
