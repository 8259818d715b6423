"""The CEL environments of DRA: the variables, functions and macros that a selector can use.

An environment depends on the release, on whether the expression is new (API validation) or stored (scheduler), and on
two feature gates. Environments are interned, so compiled selectors can be cached by environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final, Literal, TypeAlias

from allotment.cel.checking import types
from allotment.cel.checking.declarations import (
    FunctionDeclaration,
    Overload,
    core,
    extensions,
    functions,
    kubernetes,
    parse_table,
)
from allotment.cel.checking.types import Type, TypeKind
from allotment.cel.syntax.macros import MACROS, MACROS_WITHOUT_SORT_BY, Macro
from allotment.model.features import Features

EnvName: TypeAlias = Literal["stored", "new"]

# fmt: off
#: Well-known protobuf messages and the CEL types that their names denote.
_WELL_KNOWN: Mapping[str, Type] = {
    "google.protobuf.Any": types.ANY, "google.protobuf.Value": types.DYN,
    "google.protobuf.Struct": types.map_of(types.STRING, types.DYN),
    "google.protobuf.ListValue": types.list_of(types.DYN),
    "google.protobuf.Empty": types.struct("google.protobuf.Empty"),
    **{
        f"google.protobuf.{name}Value": types.wrapper(t)
        for name, t in (
            ("Bool", types.BOOL), ("Bytes", types.BYTES), ("Double", types.DOUBLE), ("Float", types.DOUBLE),
            ("Int64", types.INT), ("Int32", types.INT), ("UInt64", types.UINT), ("UInt32", types.UINT),
            ("String", types.STRING),
        )
    },
}
# fmt: on

_SECONDS_AND_NANOS = {"seconds": types.INT, "nanos": types.INT}

# fmt: off
#: The fields of well-known messages, for message literals.
_MESSAGES: Mapping[str, Mapping[str, Type]] = {
    "google.protobuf.Any": {"type_url": types.STRING, "value": types.BYTES},
    "google.protobuf.Duration": _SECONDS_AND_NANOS,
    "google.protobuf.Timestamp": _SECONDS_AND_NANOS,
    "google.protobuf.Struct": {"fields": types.map_of(types.STRING, types.DYN)},
    "google.protobuf.ListValue": {"values": types.list_of(types.DYN)},
    "google.protobuf.Value": {
        "null_value": types.INT, "number_value": types.DOUBLE, "string_value": types.STRING,
        "bool_value": types.BOOL, "struct_value": types.map_of(types.STRING, types.DYN),
        "list_value": types.list_of(types.DYN),
    },
    "google.protobuf.Empty": {},
    **{
        f"google.protobuf.{name}Value": {"value": t}
        for name, t in (
            ("Bool", types.BOOL), ("Bytes", types.BYTES), ("Double", types.DOUBLE), ("Int64", types.INT),
            ("UInt64", types.UINT), ("String", types.STRING),
        )
    },
}
# fmt: on

# fmt: off
#: Type names that are values at run time, and the types that they denote.
TYPE_NAMES: Mapping[str, Type] = {
    "bool": types.BOOL, "bytes": types.BYTES, "double": types.DOUBLE, "int": types.INT, "uint": types.UINT,
    "string": types.STRING, "null_type": types.NULL, "type": types.TYPE,
    "list": types.list_of(types.param("A")), "map": types.map_of(types.param("A"), types.param("B")),
    "optional_type": types.opaque("optional_type"),
    "google.protobuf.Duration": types.DURATION, "google.protobuf.Timestamp": types.TIMESTAMP,
    "net.IP": types.IP, "net.CIDR": types.CIDR, "google.protobuf.Empty": _WELL_KNOWN["google.protobuf.Empty"],
}
# fmt: on

#: Type names that only the checker knows: the planner rejects them.
UNDEFINED_TYPE_NAMES: Mapping[str, Type] = {
    "duration": types.DURATION,
    "timestamp": types.TIMESTAMP,
    "kubernetes.DRADevice": types.DEVICE,
    **{name: t for name, t in _WELL_KNOWN.items() if name not in TYPE_NAMES},
}

_ALL_TYPE_NAMES: Mapping[str, Type] = {**UNDEFINED_TYPE_NAMES, **TYPE_NAMES}

# fmt: off
#: The message that a literal of a well-known type creates, by kind.
_MESSAGE_OF_KIND: Mapping[TypeKind, str] = {
    TypeKind.ANY: "google.protobuf.Any", TypeKind.DYN: "google.protobuf.Value",
    TypeKind.NULL: "google.protobuf.NullValue",
    TypeKind.DURATION: "google.protobuf.Duration", TypeKind.TIMESTAMP: "google.protobuf.Timestamp",
    TypeKind.BOOL: "google.protobuf.BoolValue", TypeKind.BYTES: "google.protobuf.BytesValue",
    TypeKind.DOUBLE: "google.protobuf.DoubleValue", TypeKind.INT: "google.protobuf.Int64Value",
    TypeKind.UINT: "google.protobuf.UInt64Value", TypeKind.STRING: "google.protobuf.StringValue",
    TypeKind.LIST: "google.protobuf.ListValue", TypeKind.MAP: "google.protobuf.Struct",
}
# fmt: on
#: The macros of environments without the library of bindings, by whether they have version 3 of the lists library.
_WITHOUT_BINDINGS: Mapping[bool, Mapping[tuple[str, int, bool], Macro]] = {
    has_sort_by: {key: macro for key, macro in macros.items() if key[0] != "bind"}
    for has_sort_by, macros in ((True, MACROS), (False, MACROS_WITHOUT_SORT_BY))
}


@dataclass(frozen=True, slots=True, eq=False)
class Environment:
    """The declarations that an expression can refer to.

    ``variables`` maps names to types; ``type_names`` maps type names to the types they denote (as an expression such a
    name has type ``type(T)``); ``structs`` maps the names of object types to their fields. ``attribute_type`` is the
    type of a device attribute's value, Any or dyn, and None in environments other than DRA's. ``list_attributes`` is
    whether list attributes are accepted. ``unknown_results`` are the types of selectors, other than bool, whose result
    may be a bool. ``cel_go`` is the version of cel-go, which decides some costs.
    """

    kube: str
    name: EnvName
    functions: Mapping[str, FunctionDeclaration]
    variables: Mapping[str, Type]
    type_names: Mapping[str, Type]
    structs: Mapping[str, Mapping[str, Type]]
    attribute_type: Type | None
    list_attributes: bool
    lists_v3: bool
    unknown_results: tuple[Type, ...]
    cel_go: tuple[int, int]
    #: First identifiers of the declared dotted names.
    dotted_roots: frozenset[str]
    #: The namespace in which names are resolved first; empty for DRA.
    container: str = ""
    _rows: tuple[tuple[str, Overload], ...] = field(repr=False, default=())

    def extended(
        self, variables: Mapping[str, Type], declared: Iterable[tuple[str, Overload]] = (), container: str = ""
    ) -> Environment:
        """This environment with additional variables and functions, for conformance tests of CEL itself."""
        rows = (*self._rows, *declared)
        # In a namespace any name can be the end of a dotted one.
        dotted = [part for name in variables if "." in name for part in (name.split(".") if container else [name])]
        return replace(
            self,
            variables={**self.variables, **variables},
            functions=functions(rows),
            _rows=rows,
            dotted_roots=self.dotted_roots | {name.partition(".")[0] for name in dotted},
            container=container,
        )

    def candidate_names(self, name: str) -> tuple[str, ...]:
        """The full names that a name can resolve to, innermost namespace first; a leading dot means the root."""
        if name.startswith("."):
            return (name[1:],)
        if not self.container:
            return (name,)
        parts = self.container.split(".")
        return (*(".".join((*parts[:n], name)) for n in range(len(parts), 0, -1)), name)

    @property
    def macros(self) -> Mapping[tuple[str, int, bool], Macro]:
        macros = MACROS if self.lists_v3 else MACROS_WITHOUT_SORT_BY
        # Only DRA has the library of bindings.
        return macros if self.attribute_type is not None else _WITHOUT_BINDINGS[self.lists_v3]

    def message_name(self, t: Type) -> str | None:
        """The message whose fields a literal of this type can set; None if the type is not a message."""
        if t.kind is TypeKind.STRUCT:
            return t.name
        known = (
            t.nullable
            or t in (types.ANY, types.DYN, types.NULL, types.DURATION, types.TIMESTAMP)
            or t in (_WELL_KNOWN["google.protobuf.Struct"], types.LIST_DYN)
        )
        return _MESSAGE_OF_KIND[t.kind] if known else None


#: Overloads that cel-go 0.29 no longer has: the duration of a number of nanoseconds.
_REMOVED_IN_1_37: Final = frozenset({"int64_to_duration"})


@cache
def _rows(tables: tuple[str, ...]) -> tuple[tuple[str, Overload], ...]:
    return tuple(row for table in tables for row in parse_table(table))


@cache
def declare_environment(kube: str, name: EnvName, consumable_capacity: bool, list_attributes: bool) -> Environment:
    """The environment of a release, with the state of the gates DRAConsumableCapacity and DRAListTypeAttributes."""
    minor = int(kube.removeprefix("1."))
    stored, since_1_37 = name == "stored", minor >= 37
    # New expressions are limited to the functions of the previous release, so that a rollback can read them.
    lists_v3 = stored or minor >= 35
    # From 1.37 on the attribute type of stored expressions is always dyn; in 1.36 the gate decides in both
    # environments.
    lists_known = minor >= 36 and list_attributes
    dynamic = lists_known or (since_1_37 and stored)
    includes = minor >= 36 and (stored or lists_known)
    tables: tuple[str, ...] = (*core.TABLES, *kubernetes.TABLES, *extensions.TABLES)
    if lists_v3:
        tables = (*tables, extensions.LISTS)
    if includes:
        tables = (*tables, kubernetes.LIST_INCLUDES if since_1_37 else kubernetes.INCLUDES)
    rows = _rows(tables)
    if since_1_37:
        rows = tuple(row for row in rows if row[1].id not in _REMOVED_IN_1_37)
    attribute = types.DYN if dynamic else types.ANY
    fields = {
        "driver": types.STRING,
        "attributes": types.map_of(types.STRING, types.map_of(types.STRING, attribute)),
        "capacity": types.map_of(types.STRING, types.map_of(types.STRING, types.QUANTITY)),
    }
    if stored or consumable_capacity:
        fields["allowMultipleAllocations"] = types.BOOL
    return Environment(
        kube=kube,
        name=name,
        functions=functions(rows),
        variables={"device": types.DEVICE},
        type_names=_ALL_TYPE_NAMES,
        structs={types.DEVICE.name: fields, **_MESSAGES},
        dotted_roots=frozenset(n.partition(".")[0] for n in _ALL_TYPE_NAMES if "." in n),
        attribute_type=attribute,
        list_attributes=lists_known or since_1_37,
        lists_v3=lists_v3,
        unknown_results=(attribute,) if since_1_37 else (types.ANY, types.DYN) if lists_known else (types.ANY,),
        cel_go=(0, 29) if since_1_37 else (0, 26),
        _rows=rows,
    )


def environment(features: Features, name: EnvName = "stored") -> Environment:
    """The environment that a cluster with these features uses."""
    return declare_environment(
        features.kube, name, features.enabled("DRAConsumableCapacity"), features.enabled("DRAListTypeAttributes")
    )
