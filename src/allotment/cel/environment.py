"""The CEL environments of DRA as values: which variables, functions and macros a selector may use.

An environment depends on the release, on whether the expression is new (API validation) or stored (scheduler), and on
two feature gates; spec/cel.md §12 has the table. Environments are interned: asking twice gives the same object, so
compiled selectors can be cached by environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal, TypeAlias

from allotment.cel import types
from allotment.cel.declarations import Function, Overload, core, extensions, functions, kubernetes, parse_table
from allotment.cel.types import Type
from allotment.model.features import Features

EnvName: TypeAlias = Literal["stored", "new"]

#: Type names that are values, with the type that each denotes.
TYPE_NAMES: Mapping[str, Type] = {
    "bool": types.BOOL, "bytes": types.BYTES, "double": types.DOUBLE, "int": types.INT, "uint": types.UINT,
    "string": types.STRING, "null_type": types.NULL, "type": types.TYPE,
    "list": types.list_of(types.param("A")), "map": types.map_of(types.param("A"), types.param("B")),
    "optional_type": types.optional_of(types.param("V")),
    "google.protobuf.Duration": types.DURATION, "google.protobuf.Timestamp": types.TIMESTAMP,
    "net.IP": types.IP, "net.CIDR": types.CIDR,
}


@dataclass(frozen=True, slots=True, eq=False)
class Environment:
    """What an expression may refer to.

    ``variables`` maps a name to its type; ``type_names`` maps a type name to the type it denotes (as an expression it
    has type ``type(T)``); ``structs`` maps an object type's name to its fields. ``attribute_type`` is the type of a
    device attribute's value, Any or dyn; it is None outside DRA's own environments. ``list_attributes`` says whether
    list-valued attributes are accepted (and dyn results with them); ``missing_key_hint`` whether a missing key's error
    ends with advice (1.37).
    """

    kube: str
    name: EnvName
    functions: Mapping[str, Function]
    variables: Mapping[str, Type]
    type_names: Mapping[str, Type]
    structs: Mapping[str, Mapping[str, Type]]
    attribute_type: Type | None
    list_attributes: bool
    missing_key_hint: bool
    lists_v3: bool
    _rows: tuple[tuple[str, Overload], ...] = field(repr=False, default=())

    def extended(
        self, variables: Mapping[str, Type], declared: Iterable[tuple[str, Overload]] = ()
    ) -> Environment:
        """This environment with more variables and functions, for tests of the language itself."""
        rows = (*self._rows, *declared)
        return replace(self, variables={**self.variables, **variables}, functions=functions(rows), _rows=rows)


@lru_cache(maxsize=None)
def _rows(tables: tuple[str, ...]) -> tuple[tuple[str, Overload], ...]:
    return tuple(row for table in tables for row in parse_table(table))


@lru_cache(maxsize=None)
def declare(kube: str, name: EnvName, consumable_capacity: bool, list_attributes: bool) -> Environment:
    """The environment of a release, with the state of the gates DRAConsumableCapacity and DRAListTypeAttributes."""
    minor = int(kube.removeprefix("1."))
    stored = name == "stored"
    # The environment for new expressions offers what the previous release knew, so that a rollback can read them.
    lists_v3 = stored or minor >= 35
    # 1.37: stored expressions always see dyn; before, the compiler's gate decided for both environments.
    lists_known = minor >= 36 and list_attributes
    dynamic = lists_known or (minor >= 37 and stored)
    includes = minor >= 36 and (stored or lists_known)
    tables = (*core.TABLES, *kubernetes.TABLES, *extensions.TABLES)
    if lists_v3:
        tables = (*tables, extensions.LISTS)
    if includes:
        tables = (*tables, kubernetes.INCLUDES)
    rows = _rows(tables)
    attribute = types.DYN if dynamic else types.ANY
    fields = {
        "driver": types.STRING,
        "attributes": types.map_of(types.STRING, types.map_of(types.STRING, attribute)),
        "capacity": types.map_of(types.STRING, types.map_of(types.STRING, types.QUANTITY)),
    }
    if stored or consumable_capacity:
        fields["allowMultipleAllocations"] = types.BOOL
    return Environment(
        kube=kube, name=name, functions=functions(rows), variables={"device": types.DEVICE}, type_names=TYPE_NAMES,
        structs={types.DEVICE.name: fields}, attribute_type=attribute,
        list_attributes=lists_known or minor >= 37, missing_key_hint=minor >= 37, lists_v3=lists_v3, _rows=rows,
    )


def environment(features: Features, name: EnvName = "stored") -> Environment:
    """The environment that a cluster with these features uses."""
    return declare(
        features.kube, name, features.enabled("DRAConsumableCapacity"), features.enabled("DRAListTypeAttributes")
    )
