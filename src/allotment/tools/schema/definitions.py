"""Conversion of Kubernetes types to schema definitions by name."""

from __future__ import annotations

from typing import Final

from allotment.model.features import GATES, Features
from allotment.model.fields import TypeShape, shape_of
from allotment.model.trees import Tree
from allotment.tools.schema.descriptions import DESCRIPTIONS, SERVER_WRITES
from allotment.tools.schema.parameters import parameter_definitions
from allotment.tools.schema.suggestions import FIELDS, STRUCTS

_VALUES: Final[dict[str, Tree]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer"},
    "int64": {"type": "integer"},
    "float64": {"type": "number"},
    "bytes": {"type": "string"},
    "Quantity": {"type": ["string", "number"]},
    "IntOrString": {"type": ["string", "integer"]},
    "Time": {"type": "string"},
    "MicroTime": {"type": "string"},
    "RawExtension": {"type": "object"},
    "FieldsV1": {"type": "object"},
}


#: The entries of a container's ``resources.claims`` have the name of the claims themselves.
_CONTAINER_CLAIM: Final = frozenset({"name", "request"})


def _name(shape: TypeShape) -> str:
    """The name of a type's definition; Kubernetes has two types with the name ResourceClaim."""
    return "ContainerClaim" if shape.fields.keys() == _CONTAINER_CLAIM else shape.bare_name


class Definitions:
    """The definitions of some kinds; each type is built once."""

    def __init__(self, features: Features) -> None:
        self.built: dict[str, Tree] = {}
        self._features = features
        self._names: dict[str, str] = {}

    def of_kind(self, version: str, kind: str) -> str:
        """A reference to the definition of a kind."""
        shape = shape_of(version, kind, self._features.kube)
        assert shape is not None
        reference = self._struct(shape)
        self.built[reference.rpartition("/")[2]]["properties"] |= {
            "apiVersion": {"const": version}, "kind": {"const": kind}
        }  # fmt: skip
        return reference

    def _struct(self, shape: TypeShape) -> str:
        # Types with the same name in several groups (v1.Condition) are distinguished by their package.
        key = f"{shape.package}.{shape.bare_name}"
        if key in self._names:
            return f"#/definitions/{self._names[key]}"
        name = _name(shape)
        if name in self.built:
            name = f"{name}.{shape.package.replace('/', '.')}"
        self._names[key] = name
        definition: Tree = {"type": "object", "additionalProperties": False}
        self.built[name] = definition
        description = DESCRIPTIONS.get(_name(shape))
        if description is not None:
            definition["description"] = description.text
        definition["properties"] = {
            field: self._field(shape, field) for field in shape.fields if f"{_name(shape)}.{field}" not in SERVER_WRITES
        }
        # The server sets these fields: they are accepted in objects that were read, but not described.
        for field in shape.fields:
            definition["properties"].setdefault(field, True)
        required = [name for name, field in shape.fields.items() if field.required]
        if required:
            definition["required"] = required
        if shape.bare_name in STRUCTS:
            definition |= STRUCTS[shape.bare_name]()
        if shape.bare_name == "OpaqueDeviceConfiguration":
            self.built.update(parameter_definitions())
        return f"#/definitions/{name}"

    def _field(self, owner: TypeShape, field: str) -> Tree:
        name = f"{_name(owner)}.{field}"
        suggested = FIELDS.get(name)
        built = suggested() if suggested is not None else self._value(owner.fields[field].shape)
        description = DESCRIPTIONS.get(name)
        if description is None:
            return built
        text = description.text
        if description.gate and not self._features.enabled(description.gate):
            release = f"Kubernetes {self._features.kube}"
            known = description.gate in GATES and self._features.kube in GATES[description.gate]
            text += (
                f" Requires feature gate {description.gate} in {release}."
                if known
                else f" Not available in {release}, which does not have feature gate {description.gate}."
            )
        # draft-07 ignores other keywords next to $ref.
        return {"description": text, "allOf": [built]} if "$ref" in built else {"description": text, **built}

    def _value(self, shape: TypeShape) -> Tree:
        if shape.form == "struct":
            return {"$ref": self._struct(shape)}
        if shape.form == "slice" and shape.element is not None:
            return {"type": "array", "items": self._value(shape.element)}
        if shape.form == "map" and shape.element is not None:
            return {"type": "object", "additionalProperties": self._value(shape.element)}
        return dict(_VALUES.get(shape.form, {}))
