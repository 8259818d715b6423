"""The fields of a kind of parameters, with their types and allowed values."""

from __future__ import annotations

import inspect as python
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from msgspec import inspect

from allotment.model.quantity import Quantity
from allotment.vocabulary.parameters.problem import Path


class ParameterField(NamedTuple):
    """A field: its path, its type, and its allowed values if they are a closed set.

    ``type`` is ``object``, ``list``, ``map``, ``string``, ``int``, ``float``, ``bool`` or ``quantity``; ``meaning`` is
    the first sentence of the description of an object.
    """

    path: Path
    type: str
    values: tuple[str, ...] = ()
    required: bool = False
    meaning: str = ""

    @property
    def name(self) -> str:
        """``sharing.strategy``."""
        return ".".join(map(str, self.path))


def fields_of(kind: type) -> tuple[ParameterField, ...]:
    """Return all fields of a kind, objects before their fields.

    >>> from allotment.vocabulary.parameters.amd import VfioDeviceConfig
    >>> [(field.name, field.type, field.values) for field in fields_of(VfioDeviceConfig)][-1]
    ('iommu.backendPolicy', 'string', ('LegacyOnly', 'PreferIommuFD'))
    """
    return tuple(_fields(inspect.type_info(kind), ()))


def _fields(type: inspect.Type, path: Path) -> Iterator[ParameterField]:
    if not isinstance(type, inspect.StructType):
        return
    for field in type.fields:
        inner = _without_none(field.type)
        field_path = (*path, field.encode_name)
        yield ParameterField(field_path, _type_name(inner), _values(inner), field.required, _meaning(inner))
        yield from _fields(inner, field_path)


def _without_none(type: inspect.Type) -> inspect.Type:
    """The type without ``None``."""
    if isinstance(type, inspect.UnionType):
        members = [each for each in type.types if not isinstance(each, inspect.NoneType)]
        return members[0] if len(members) == 1 else type
    return type


_TYPE_NAMES: Final[Mapping[type[inspect.Type], str]] = {
    inspect.StructType: "object",
    inspect.DictType: "map",
    inspect.ListType: "list",
    inspect.VarTupleType: "list",
    inspect.IntType: "int",
    inspect.FloatType: "float",
    inspect.BoolType: "bool",
}


def _type_name(type: inspect.Type) -> str:
    if isinstance(type, inspect.CustomType) and type.cls is Quantity:
        return "quantity"
    return next((name for kind, name in _TYPE_NAMES.items() if isinstance(type, kind)), "string")


def _values(type: inspect.Type) -> tuple[str, ...]:
    return tuple(map(str, type.values)) if isinstance(type, inspect.LiteralType) else ()


def _meaning(type: inspect.Type) -> str:
    if not isinstance(type, inspect.StructType):
        return ""
    return (python.getdoc(type.cls) or "").partition("\n")[0]
