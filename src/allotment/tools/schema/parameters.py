"""Schema definitions of driver parameters."""

from __future__ import annotations

import inspect as python

from msgspec import inspect

from allotment.model.quantity import Quantity
from allotment.model.trees import Tree
from allotment.vocabulary import drivers
from allotment.vocabulary.parameters import kinds_of


def drivers_with_parameters() -> tuple[str, ...]:
    """The drivers with known parameter kinds."""
    return tuple(driver for driver in drivers() if kinds_of(driver))


def parameter_definitions() -> dict[str, Tree]:
    """A definition for the parameters of each driver, and for each parameter kind."""
    found: dict[str, Tree] = {}
    for driver in drivers_with_parameters():
        kinds = kinds_of(driver) or {}
        rules = []
        for (version, kind), type_ in kinds.items():
            name = f"{kind} of {driver}"
            found[name] = _object(type_)
            found[name]["properties"] = {
                "apiVersion": {"const": version}, "kind": {"const": kind}, **found[name]["properties"]
            }  # fmt: skip
            rules.append(
                {
                    "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
                    "then": {"$ref": f"#/definitions/{name}"},
                }
            )
        found[f"parameters of {driver}"] = {
            "type": "object",
            "required": ["apiVersion", "kind"],
            "properties": {
                "apiVersion": {"enum": sorted({version for version, _ in kinds})},
                "kind": {"enum": sorted(kind for _, kind in kinds)},
            },
            "allOf": rules,
        }
    return found


def _object(kind: type) -> Tree:
    type_ = inspect.type_info(kind)
    assert isinstance(type_, inspect.StructType)
    return _schema(type_)


def _schema(type_: inspect.Type) -> Tree:
    if isinstance(type_, inspect.UnionType):
        others = [each for each in type_.types if not isinstance(each, inspect.NoneType)]
        return _schema(others[0]) if len(others) == 1 else {}
    if isinstance(type_, inspect.StructType):
        required = [field.encode_name for field in type_.fields if field.required]
        return {
            "type": "object",
            "description": (python.getdoc(type_.cls) or "").partition("\n")[0],
            "additionalProperties": False,
            "properties": {field.encode_name: _schema(field.type) for field in type_.fields},
            **({"required": required} if required else {}),
        }
    if isinstance(type_, inspect.DictType):
        return {"type": "object", "additionalProperties": _schema(type_.value_type)}
    if isinstance(type_, inspect.LiteralType):
        return {"enum": list(type_.values)}
    if isinstance(type_, inspect.CustomType) and type_.cls is Quantity:
        return {"type": ["string", "integer"]}
    if isinstance(type_, inspect.IntType):
        return {"type": "integer"}
    if isinstance(type_, inspect.BoolType):
        return {"type": "boolean"}
    return {"type": "string"}
