"""The OpenAPI v2 document in protobuf equals the JSON form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from allotment.apiserver.api_description import Documents
from allotment.apiserver.api_description.openapi_v2_protobuf import openapi_v2_protobuf
from allotment.apiserver.built_in_kinds import built_in_kinds
from allotment.apiserver.http_messages import Request
from allotment.model.features import Features

#: The Accept header of kubectl.
ACCEPT = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
CONTENT_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return number, at


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        match tag & 7:
            case 0:
                value, at = varint(data, at)
                yield tag >> 3, value
            case 1:
                yield tag >> 3, data[at : at + 8]
                at += 8
            case 2:
                size, at = varint(data, at)
                yield tag >> 3, data[at : at + size]
                at += size
            case wire:
                raise AssertionError(f"wire type {wire}")


def every(data: bytes, number: int) -> list[Any]:
    return [value for found, value in fields(data) if found == number]


def field(data: bytes, *numbers: int) -> Any:
    for number in numbers:
        (data,) = every(data, number)
    return data


def named(data: bytes, number: int) -> dict[str, bytes]:
    return {field(entry, 1).decode(): field(entry, 2) for entry in every(data, number)}


def extension(data: bytes, number: int, name: str) -> Any:
    return json.loads(field(named(data, number)[name], 2))


@pytest.fixture(scope="module")
def documents() -> Documents:
    return Documents(built_in_kinds(Features(kube="1.36")), release="1.36")


def test_the_protobuf_form_equals_the_json_form(documents: Documents) -> None:
    answer = documents.respond(Request("GET", "/openapi/v2", "", {"accept": ACCEPT}))
    older = documents.respond(Request("GET", "/openapi/v2", "", {"accept": "application/json"}))
    assert answer is not None
    assert older is not None
    assert (answer.code, dict(answer.headers)["content-type"]) == (200, CONTENT_TYPE)
    tree, data = json.loads(older.body), answer.body
    assert field(data, 1) == b"2.0"
    paths, definitions = named(field(data, 8), 2), named(field(data, 9), 1)
    assert list(paths) == list(tree["paths"])
    assert list(definitions) == list(tree["definitions"])
    for name, schema in tree["definitions"].items():
        properties = [field(each, 1).decode() for part in every(definitions[name], 25) for each in every(part, 1)]
        assert properties == list(schema.get("properties", ()))
        assert [each.decode() for each in every(definitions[name], 19)] == schema.get("required", [])


def test_the_fields_that_kubectl_reads_are_present(documents: Documents) -> None:
    answer = documents.respond(Request("GET", "/openapi/v2", "", {"accept": ACCEPT}))
    assert answer is not None
    patch = field(named(field(answer.body, 8), 2)["/api/v1/namespaces/{namespace}/pods/{name}"], 8)
    assert extension(patch, 13, "x-kubernetes-group-version-kind") == {"group": "", "kind": "Pod", "version": "v1"}
    queries = [field(each, 1, 2, 3) for each in every(patch, 8) if not every(field(each, 1), 1)]
    assert b"fieldValidation" in [field(query, 4) for query in queries]
    pod = named(field(answer.body, 9), 1)["io.k8s.api.core.v1.Pod"]
    assert extension(pod, 31, "x-kubernetes-group-version-kind") == [{"group": "", "kind": "Pod", "version": "v1"}]


def test_every_keyword_of_a_schema_is_encoded() -> None:
    schema = {
        "type": "object", "description": "D", "required": ["a"], "additionalProperties": True, "minimum": 0.5,
        "properties": {
            "a": {"type": "array", "items": {"$ref": "#/definitions/B"}, "maxItems": 300},
            "b": {"type": "object", "additionalProperties": {"type": "string", "enum": ["x", "y"]}, "default": {}},
        },
        "x-kubernetes-union": [1],
    }  # fmt: skip
    data = field(openapi_v2_protobuf({"definitions": {"A": schema}}), 9, 1, 2)
    assert (field(data, 22, 1), field(data, 4), field(data, 19), field(data, 21, 2)) == (b"object", b"D", b"a", 1)
    assert extension(data, 31, "x-kubernetes-union") == [1]
    properties = named(field(data, 25), 1)
    assert field(properties["a"], 23, 1, 1) == b"#/definitions/B"
    assert field(properties["a"], 14) == 300
    values = field(properties["b"], 21, 1)
    assert [json.loads(field(each, 2)) for each in every(values, 20)] == ["x", "y"]
    assert json.loads(field(properties["b"], 5, 2)) == {}
