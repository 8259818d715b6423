"""The fields of a kind of parameters, for whoever lists or describes them."""

from __future__ import annotations

import inspect as python
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from msgspec import inspect

from allotment.model.quantity import Quantity
from allotment.vocabulary.parameters.problem import Path


class ParameterField(NamedTuple):
    """A field: where it stands, of what type, and which values it may have if they are a closed set.

    ``type`` is ``object``, ``list``, ``map``, ``string``, ``int``, ``float``, ``bool`` or ``quantity``; ``meaning`` is
    the first sentence of what an object is for.
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
    """Every field of a kind, objects before what they hold.

    >>> from allotment.vocabulary.parameters.amd import VfioDeviceConfig
    >>> [(field.name, field.type, field.values) for field in fields_of(VfioDeviceConfig)][-1]
    ('iommu.backendPolicy', 'string', ('LegacyOnly', 'PreferIommuFD'))
    """
    return tuple(_fields(inspect.type_info(kind), ()))


def _fields(type: inspect.Type, path: Path) -> Iterator[ParameterField]:
    if not isinstance(type, inspect.StructType):
        return
    for field in type.fields:
        inner = _bare(field.type)
        at = (*path, field.encode_name)
        yield ParameterField(at, _word(inner), _values(inner), field.required, _meaning(inner))
        yield from _fields(inner, at)


def _bare(type: inspect.Type) -> inspect.Type:
    """The type without ``None``."""
    if isinstance(type, inspect.UnionType):
        others = [each for each in type.types if not isinstance(each, inspect.NoneType)]
        return others[0] if len(others) == 1 else type
    return type


_WORDS: Final[Mapping[type[inspect.Type], str]] = {
    inspect.StructType: "object",
    inspect.DictType: "map",
    inspect.ListType: "list",
    inspect.VarTupleType: "list",
    inspect.IntType: "int",
    inspect.FloatType: "float",
    inspect.BoolType: "bool",
}


def _word(type: inspect.Type) -> str:
    if isinstance(type, inspect.CustomType) and type.cls is Quantity:
        return "quantity"
    return next((word for kind, word in _WORDS.items() if isinstance(type, kind)), "string")


def _values(type: inspect.Type) -> tuple[str, ...]:
    return tuple(map(str, type.values)) if isinstance(type, inspect.LiteralType) else ()


def _meaning(type: inspect.Type) -> str:
    if not isinstance(type, inspect.StructType):
        return ""
    return (python.getdoc(type.cls) or "").partition("\n")[0]
