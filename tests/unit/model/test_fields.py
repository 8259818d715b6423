"""The packaged field table against what a real API server publishes of itself."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from allotment.model.fields import Shape, kinds_of, shape_of, versions_of

# Types that decode themselves are described by their JSON form there.
OPAQUE = {"Quantity", "Time", "MicroTime", "Duration", "IntOrString", "RawExtension", "FieldsV1"}
SCALARS = {"string": "string", "bytes": "string", "bool": "boolean", "int32": "integer", "int64": "integer"}


def test_the_table_has_the_fields_that_the_server_publishes(shared: Callable[[str], Path]) -> None:
    with gzip.open(shared("vectors/apiserver/openapi/openapi-v2.json.gz"), "rt") as file:
        definitions: dict[str, Any] = json.load(file)["definitions"]
    compared: set[tuple[str, str]] = set()

    def compare(shape: Shape, schema: dict[str, Any], where: str) -> None:
        if shape.form in OPAQUE:
            return
        if "$ref" in schema:
            reference = schema["$ref"].removeprefix("#/definitions/")
            if (shape.name, reference) in compared:
                return
            compared.add((shape.name, reference))
            schema = definitions[reference]
        if shape.form == "struct":
            properties = schema.get("properties", {})
            assert set(shape.fields) == set(properties), where
            for name, field in shape.fields.items():
                compare(field.shape, properties[name], f"{where}.{name}")
        elif shape.form == "slice":
            assert schema["type"] == "array", where
            assert shape.element is not None
            compare(shape.element, schema["items"], f"{where}[]")
        elif shape.form == "map":
            assert schema["type"] == "object", where
            assert shape.element is not None
            compare(shape.element, schema["additionalProperties"], f"{where}{{}}")
        else:
            assert schema["type"] == SCALARS[shape.form], where
            if shape.form in ("int32", "int64"):
                assert schema["format"] == shape.form, where

    kinds = 0
    for reference, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", ()):
            version = "/".join(part for part in (kind["group"], kind["version"]) if part)
            shape = shape_of(version, kind["kind"])
            if shape is not None and "metadata" in definition.get("properties", {}):
                kinds += 1
                compare(shape, {"$ref": f"#/definitions/{reference}"}, f"{version} {kind['kind']}")
    assert kinds > 60
    assert len(compared) > 450


def test_the_kinds_of_this_release() -> None:
    assert kinds_of("resource.k8s.io/v1") == {"DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"}
    assert kinds_of("resource.k8s.io/v7") == frozenset()
    assert versions_of("DeviceTaintRule") == ("resource.k8s.io/v1alpha3", "resource.k8s.io/v1beta2")


def test_v1alpha3_as_it_was_differs_from_v1beta1_where_history_says() -> None:
    old, later = (
        shape_of("resource.k8s.io/v1alpha3", "ResourceSlice"),
        shape_of("resource.k8s.io/v1beta1", "ResourceSlice"),
    )
    assert old is not None
    assert later is not None

    def capacity(shape: Shape) -> Shape:
        devices = shape.fields["spec"].shape.fields["devices"].shape.element
        assert devices is not None
        element = devices.fields["basic"].shape.fields["capacity"].shape.element
        assert element is not None
        return element

    assert (capacity(old).form, capacity(later).form) == ("Quantity", "struct")
    claim = shape_of("resource.k8s.io/v1alpha3", "ResourceClaim")
    assert claim is not None
    assert claim.fields["spec"].shape.fields["controller"].shape.form == "string"
    assert claim.fields["spec"].shape.name == "v1alpha3.ResourceClaimSpec"
