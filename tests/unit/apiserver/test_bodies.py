"""Request bodies: what is read, and how what is wrong with them is told."""

from __future__ import annotations

import asyncio

import pytest

from allotment.apiserver.bodies import LIMIT
from tests.unit.apiserver.served import CLAIMS, MAPS, Served, config_map


def _told(body: bytes, media: str = "application/json", query: str = "") -> tuple[int, str]:
    async def told() -> tuple[int, str]:
        served = await Served().started()
        said = await served.say("POST", MAPS + query, body, media)
        return said.code, said.body.get("message", "")

    return asyncio.run(told())


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
def test_what_cannot_be_read(body: bytes, code: int, message: str) -> None:
    assert _told(body) == (code, message)


def test_media_types() -> None:
    assert _told(b"x", "text/plain")[0] == 415
    assert _told(b"metadata:\n  name: a\n", "application/yaml") == (201, "")
    assert _told(b"a: [", "application/yaml")[0] == 400
    assert _told(b"k8s\x00garbage", "application/vnd.kubernetes.protobuf")[0] == 400


_STRAY = b'{"metadata":{"name":"a","bogus":1,"name":"b"},"data":{"k":"v"},"more":1}'


def test_stray_fields_in_the_order_written() -> None:
    code, message = _told(_STRAY, query="?fieldValidation=Strict")
    assert code == 400
    assert message.endswith(
        'strict decoding error: unknown field "metadata.bogus", duplicate field "metadata.name", unknown field "more"'
    )


def test_stray_fields_are_warned_about_or_passed_over() -> None:
    async def told() -> None:
        served = await Served().started()
        said = await served.say("POST", MAPS, _STRAY, "application/json")
        assert said.code == 201
        assert said.body["metadata"]["name"] == "b", "the last of two keys counts"
        assert said.warnings == [
            '299 - "unknown field \\"metadata.bogus\\""',
            '299 - "duplicate field \\"metadata.name\\""',
            '299 - "unknown field \\"more\\""',
        ]
        said = await served.put(f"{MAPS}/b?fieldValidation=Ignore", {"metadata": {"name": "b"}, "more": 1})
        assert (said.code, said.warnings) == (200, [])

    asyncio.run(told())


def test_white_space_hides_no_key_that_stands_twice() -> None:
    spaced = b'{ "metadata" : { "name" : "a b" , "name" : "c" } }'
    code, message = _told(spaced, query="?fieldValidation=Strict")
    assert (code, message.rpartition(": ")[2]) == (400, 'duplicate field "metadata.name"')
    assert (
        _told(b'{ "metadata" : { "name" : "c" } , "data" : { "k" : "a , b" } }', query="?fieldValidation=Strict")[0]
        == 201
    )


def test_a_whole_number_written_as_a_float_is_none_in_json() -> None:
    async def told() -> None:
        served = await Served().started()
        asked = {"name": "r", "exactly": {"deviceClassName": "c", "count": 2.0}}
        body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [asked]}}}
        said = await served.post(CLAIMS, body)
        assert said.code == 400
        assert "cannot unmarshal number 2.0 into Go struct field ExactDeviceRequest" in said.message
        text = (
            b"metadata: {name: c}\nspec: {devices: {requests: [{name: r, exactly: {deviceClassName: c, count: 2.0}}]}}"
        )
        assert (await served.say("POST", CLAIMS, text, "application/yaml")).code == 201

    asyncio.run(told())


def test_options_of_a_write() -> None:
    async def told() -> None:
        served = await Served().started()
        for query, field in (
            ("dryRun=Some", "dryRun"),
            ("fieldValidation=Foo", "fieldValidation"),
            ("fieldManager=" + "m" * 129, "fieldManager"),
            ("fieldManager=%00", "fieldManager"),
        ):
            said = await served.post(f"{MAPS}?{query}", config_map("a"))
            assert said.code == 422
            assert said.body["details"]["causes"][0]["field"] == field
            assert said.message.startswith('CreateOptions.meta.k8s.io "" is invalid: ')

    asyncio.run(told())
