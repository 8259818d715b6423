"""Decoding and validation of request bodies."""

from __future__ import annotations

import asyncio

import pytest

from allotment.apiserver.bodies import LIMIT
from tests.unit.apiserver.served import CLAIMS, MAPS, Served, config_map


def _post(body: bytes, media: str = "application/json", query: str = "") -> tuple[int, str]:
    async def scenario() -> tuple[int, str]:
        served = await Served().started()
        response = await served.request("POST", MAPS + query, body, media)
        return response.code, response.body.get("message", "")

    return asyncio.run(scenario())


_UNRECOGNIZED = (
    "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error"
)
_TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
_AS_MAP = 'in version "v1" cannot be handled as a ConfigMap'


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (b"", 400, f"{_UNRECOGNIZED}: unexpected end of JSON input (<empty>)"),
        (b"[1]", 400, f"{_UNRECOGNIZED}: json: cannot unmarshal array into Go value of type {_TYPE_META} (5b315d)"),
        (
            b'{"kind":"Secret","apiVersion":"v1"}', 400,
            f"Secret {_AS_MAP}: converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        (
            b'{"kind":1}', 400,
            f'{_UNRECOGNIZED}: json: cannot unmarshal number into Go struct field .kind of type string ({{"kind":1}})',
        ),
        (
            b'{"metadata":{"name":"a","namespace":"other"}}', 400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            b'{"data":{"a":1}}', 400,
            f"ConfigMap {_AS_MAP}: json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (b" " * (LIMIT + 1), 413, f"Request entity too large: limit is {LIMIT}"),
    ],
)  # fmt: skip
def test_undecodable_bodies(body: bytes, code: int, message: str) -> None:
    assert _post(body) == (code, message)


def test_media_types() -> None:
    assert _post(b"x", "text/plain")[0] == 415
    assert _post(b"metadata:\n  name: a\n", "application/yaml") == (201, "")
    assert _post(b"a: [", "application/yaml")[0] == 400
    assert _post(b"k8s\x00garbage", "application/vnd.kubernetes.protobuf")[0] == 400


_UNKNOWN_FIELDS = b'{"metadata":{"name":"a","bogus":1,"name":"b"},"data":{"k":"v"},"more":1}'


def test_unknown_fields_are_reported_in_source_order() -> None:
    code, message = _post(_UNKNOWN_FIELDS, query="?fieldValidation=Strict")
    assert code == 400
    assert message.endswith(
        'strict decoding error: unknown field "metadata.bogus", duplicate field "metadata.name", unknown field "more"'
    )


def test_unknown_fields_cause_warnings_or_are_ignored() -> None:
    async def scenario() -> None:
        served = await Served().started()
        response = await served.request("POST", MAPS, _UNKNOWN_FIELDS, "application/json")
        assert response.code == 201
        assert response.body["metadata"]["name"] == "b", "the last of two keys counts"
        assert response.warnings == [
            '299 - "unknown field \\"metadata.bogus\\""',
            '299 - "duplicate field \\"metadata.name\\""',
            '299 - "unknown field \\"more\\""',
        ]
        response = await served.put(f"{MAPS}/b?fieldValidation=Ignore", {"metadata": {"name": "b"}, "more": 1})
        assert (response.code, response.warnings) == (200, [])

    asyncio.run(scenario())


def test_duplicate_keys_are_found_in_formatted_json() -> None:
    spaced = b'{ "metadata" : { "name" : "a b" , "name" : "c" } }'
    code, message = _post(spaced, query="?fieldValidation=Strict")
    assert (code, message.rpartition(": ")[2]) == (400, 'duplicate field "metadata.name"')
    assert (
        _post(b'{ "metadata" : { "name" : "c" } , "data" : { "k" : "a , b" } }', query="?fieldValidation=Strict")[0]
        == 201
    )


def test_a_float_is_not_accepted_as_an_integer_in_json() -> None:
    async def scenario() -> None:
        served = await Served().started()
        requested = {"name": "r", "exactly": {"deviceClassName": "c", "count": 2.0}}
        body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [requested]}}}
        response = await served.post(CLAIMS, body)
        assert response.code == 400
        assert "cannot unmarshal number 2.0 into Go struct field ExactDeviceRequest" in response.message
        text = (
            b"metadata: {name: c}\nspec: {devices: {requests: [{name: r, exactly: {deviceClassName: c, count: 2.0}}]}}"
        )
        assert (await served.request("POST", CLAIMS, text, "application/yaml")).code == 201

    asyncio.run(scenario())


def test_invalid_write_options() -> None:
    async def scenario() -> None:
        served = await Served().started()
        for query, field in (
            ("dryRun=Some", "dryRun"),
            ("fieldValidation=Foo", "fieldValidation"),
            ("fieldManager=" + "m" * 129, "fieldManager"),
            ("fieldManager=%00", "fieldManager"),
        ):
            response = await served.post(f"{MAPS}?{query}", config_map("a"))
            assert response.code == 422
            assert response.body["details"]["causes"][0]["field"] == field
            assert response.message.startswith('CreateOptions.meta.k8s.io "" is invalid: ')

    asyncio.run(scenario())


def test_duplicate_keys_are_reported_where_the_second_one_is_read() -> None:
    body = b'{"metadata":{"name":"a"},"data":{"k":"1","k":"2"},"data":{"k":"3"}}'
    code, message = _post(body, query="?fieldValidation=Strict")
    assert (code, message.rpartition("error: ")[2]) == (400, 'duplicate field "data.k", duplicate field "data"')


def test_repeated_keys_in_yaml_are_reported_with_their_lines() -> None:
    body = b'metadata: {name: d}\ndata:\n  a: "1"\n  a: "2"\nq: 1\n'
    code, message = _post(body, "application/yaml", query="?fieldValidation=Strict")
    assert code == 400
    assert message.endswith(
        'strict decoding error: yaml: unmarshal errors:\n  line 4: key "a" already set in map, unknown field "q"'
    )


def test_of_repeated_keys_in_yaml_the_last_one_counts() -> None:
    async def scenario() -> None:
        served = await Served().started()
        body = b'metadata: {name: d}\ndata:\n  a: "1"\n  a: "2"\n'
        response = await served.request("POST", MAPS, body, "application/yaml")
        assert (response.code, response.body["data"]) == (201, {"a": "2"})
        assert response.warnings == ['299 - "line 4: key \\"a\\" already set in map"']

    asyncio.run(scenario())
