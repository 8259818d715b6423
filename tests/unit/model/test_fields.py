"""The packaged field table, compared with the schemas that a real API server publishes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from allotment.model.fields import Field, TypeShape, introduced_in, kinds_of, shape_of, versions_of
from allotment.model.releases import release_table

# Types with their own decoder, which the schema describes by their JSON form.
OPAQUE = {
    "Quantity", "Time", "MicroTime", "Duration", "IntOrString", "RawExtension", "FieldsV1",
    "JSON", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray",
}  # fmt: skip
SCALARS = {
    "string": "string", "bytes": "string", "bool": "boolean", "int32": "integer", "int64": "integer",
    "float64": "number",
}  # fmt: skip
FORMATS = {"int32": "int32", "int64": "int64", "bytes": "byte", "float64": "double"}


class Published(NamedTuple):
    """A field with its published schema, the schema of its struct, and its path."""

    name: str
    field: Field
    schema: dict[str, Any]
    struct: dict[str, Any]
    path: str


@pytest.fixture(scope="module")
def definitions(shared: Callable[[str], Path]) -> dict[str, Any]:
    with gzip.open(shared("vectors/apiserver/openapi/openapi-v2.json.gz"), "rt") as file:
        found: dict[str, Any] = json.load(file)["definitions"]
    return found


def published(definitions: dict[str, Any]) -> Iterator[tuple[TypeShape, dict[str, Any], str]]:
    """Yield every type of every known kind with its schema and path, following references."""
    compared: set[tuple[str, str]] = set()

    def nested(shape: TypeShape, schema: dict[str, Any], path: str) -> Iterator[tuple[TypeShape, dict[str, Any], str]]:
        if "$ref" in schema:
            reference = schema["$ref"].removeprefix("#/definitions/")
            if (shape.name, reference) in compared:
                return
            compared.add((shape.name, reference))
            schema = definitions[reference]
        yield shape, schema, path
        if shape.form == "struct":
            for name, field in shape.fields.items():
                if name in schema.get("properties", {}):
                    yield from nested(field.shape, schema["properties"][name], f"{path}.{name}")
        elif shape.form in ("slice", "map"):
            assert shape.element is not None
            yield from nested(
                shape.element, schema["items" if shape.form == "slice" else "additionalProperties"], f"{path}[]"
            )

    for reference, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", ()):
            version = "/".join(part for part in (kind["group"], kind["version"]) if part)
            shape = shape_of(version, kind["kind"], "1.36")
            if shape is not None:
                yield from nested(shape, {"$ref": f"#/definitions/{reference}"}, f"{version} {kind['kind']}")


def published_fields(definitions: dict[str, Any]) -> Iterator[Published]:
    for shape, schema, path in published(definitions):
        for name, field in shape.fields.items():
            yield Published(name, field, schema["properties"][name], schema, f"{path}.{name}")


def test_table_has_the_fields_of_the_published_schema(definitions: dict[str, Any]) -> None:
    compared = 0
    for shape, schema, path in published(definitions):
        compared += 1
        if shape.form in OPAQUE:
            continue
        if shape.form == "struct":
            assert set(shape.fields) == set(schema.get("properties", {})), path
        elif shape.form in ("slice", "map"):
            assert schema["type"] == {"slice": "array", "map": "object"}[shape.form], path
        else:
            assert schema["type"] == SCALARS[shape.form], path
            assert schema.get("format") == FORMATS.get(shape.form), path
    assert compared > 2000


def test_table_has_the_patch_and_apply_properties_of_the_published_schema(definitions: dict[str, Any]) -> None:
    lists = merged = 0
    for name, field, schema, struct, path in published_fields(definitions):
        assert (name in struct.get("required", ())) == field.required, path
        assert schema.get("x-kubernetes-patch-merge-key", "") == field.merge_key, path
        assert frozenset(filter(None, schema.get("x-kubernetes-patch-strategy", "").split(","))) == field.strategies, (
            path
        )
        assert schema.get("x-kubernetes-list-type", "atomic") == field.list_type, path
        assert tuple(schema.get("x-kubernetes-list-map-keys", ())) == field.list_keys, path
        referenced = definitions[schema["$ref"].removeprefix("#/definitions/")] if "$ref" in schema else {}
        published = schema.get("x-kubernetes-map-type") or referenced.get("x-kubernetes-map-type", "granular")
        assert published == field.map_type, path
        if schema.get("default") not in (None, {}, "", 0, False):
            assert schema["default"] == field.default, path
        lists += field.list_type != "atomic"
        merged += "merge" in field.strategies
    assert lists > 70
    assert merged > 60


def test_table_has_the_protobuf_numbers(shared: Callable[[str], Path], definitions: dict[str, Any]) -> None:
    with gzip.open(shared("vectors/apiserver/protobuf/fields.json.gz"), "rt") as file:
        messages: dict[str, dict[str, list[str]]] = json.load(file)
    compared = 0
    for shape, _, path in published(definitions):
        message = messages.get(f"{shape.package.replace('/', '.')}.{shape.bare_name}")
        if shape.form != "struct" or message is None:
            continue
        direct = {field.number: name for name, field in shape.fields.items() if not field.embedded and field.number}
        inlined = {field.embedded_numbers[0] for field in shape.fields.values() if field.embedded_numbers}
        assert direct.keys() | inlined == {int(number) for number in message}, path
        for number, name in direct.items():
            assert message[str(number)][0].lower() == name.lower(), path
            compared += 1
    assert compared > 1500


def test_always_printed_and_pointer_fields() -> None:
    pod, slices = shape_of("v1", "Pod"), shape_of("resource.k8s.io/v1", "ResourceSlice")
    assert pod is not None
    assert slices is not None
    assert {name for name, field in pod.fields.items() if field.always_printed} == {"metadata", "spec", "status"}
    assert {name for name, field in pod.fields["spec"].shape.fields.items() if field.always_printed} == {"containers"}
    assert list(pod.fields) == ["kind", "apiVersion", "metadata", "spec", "status"]
    spec = slices.fields["spec"].shape.fields
    assert {name for name, field in spec.items() if field.always_printed} == {"driver", "pool"}
    assert {name for name, field in spec.items() if field.pointer} == {
        "nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection", "partitionTypeAttribute",
    }  # fmt: skip


def test_protocol_is_a_list_key_with_default_tcp() -> None:
    service = shape_of("v1", "Service")
    assert service is not None
    ports = service.fields["spec"].shape.fields["ports"]
    assert (ports.list_type, ports.list_keys) == ("map", ("port", "protocol"))
    assert ports.shape.element is not None
    assert ports.shape.element.fields["protocol"].default == "TCP"


def test_recursive_schema_is_one_shape() -> None:
    definition = shape_of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    assert definition is not None
    versions = definition.fields["spec"].shape.fields["versions"].shape.element
    assert versions is not None
    schema = versions.fields["schema"].shape.fields["openAPIV3Schema"].shape
    assert schema.fields["properties"].shape.element is schema
    assert schema.fields["items"].shape.element is schema


def test_kinds_and_versions() -> None:
    main = {"DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"}
    assert kinds_of("resource.k8s.io/v1") == {*main, "DeviceTaintRule"}
    assert {kind: introduced_in("resource.k8s.io/v1", kind) for kind in main} == dict.fromkeys(main, "")
    assert introduced_in("resource.k8s.io/v1", "DeviceTaintRule") == "1.37"
    assert kinds_of("resource.k8s.io/v7") == frozenset()
    assert versions_of("DeviceTaintRule") == (
        "resource.k8s.io/v1", "resource.k8s.io/v1alpha3", "resource.k8s.io/v1beta2",
    )  # fmt: skip
    assert kinds_of("meta.k8s.io/v1") == {"APIResourceList", "DeleteOptions", "Status"}


def test_v1alpha3_differs_from_v1beta1() -> None:
    old, later = (
        shape_of("resource.k8s.io/v1alpha3", "ResourceSlice"),
        shape_of("resource.k8s.io/v1beta1", "ResourceSlice"),
    )
    assert old is not None
    assert later is not None

    def capacity(shape: TypeShape) -> TypeShape:
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


def _structs(release: str) -> dict[str, TypeShape]:
    """All structs of a release by the names of their schemas: ``io.k8s.api.core.v1.Pod``."""
    table = release_table(release)
    pending = [shape_of(version, kind, release) for version, kinds in table.kinds.items() for kind in kinds]
    found: dict[str, TypeShape] = {}
    while pending:
        shape = pending.pop()
        if shape is None:
            continue
        name = f"io.{shape.package.replace('k8s.io', 'k8s').replace('/', '.')}.{shape.bare_name}"
        if shape.form != "struct":
            pending.append(shape.element)
        elif name not in found:
            found[name] = shape
            pending.extend(field.shape for field in shape.fields.values())
    return found


@pytest.mark.parametrize("served", ["p1", "p2"])
def test_table_of_1_37_has_the_fields_of_a_running_server(shared: Callable[[str], Path], served: str) -> None:
    with gzip.open(shared(f"vectors/k8s-1.37/apiserver/137-12-schema-fields-{served}.json.gz"), "rt") as file:
        schemas: dict[str, dict[str, Any]] = json.load(file)
    structs = _structs("1.37")
    compared = structs.keys() & schemas.keys()
    for name in compared:
        assert set(structs[name].fields) == set(schemas[name].get("properties", ())), name
        required = {field for field, facts in structs[name].fields.items() if facts.required}
        assert required == set(schemas[name].get("required", ())), name
    assert len(compared) > 500
