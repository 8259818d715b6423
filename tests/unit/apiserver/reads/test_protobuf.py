"""Protobuf responses: negotiation, and equality with JSON."""

from __future__ import annotations

import asyncio
import json

import pytest

from allotment.apiserver.http_messages import Response, Streaming
from allotment.model.protobuf import MAGIC, decode
from allotment.model.trees import Tree
from tests.unit.apiserver.served import CLAIMS, MAPS, PODS, Served, config_map, pod

PROTOBUF = "application/vnd.kubernetes.protobuf"
PARTIAL = f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
WIDGETS: Tree = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"kind": "Widget", "plural": "widgets"},
        "scope": "Namespaced",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
WIDGET_PATH = "/apis/example.com/v1/namespaces/shop/widgets"


def fields(message: bytes) -> list[tuple[int, bytes]]:
    """The fields of a message that has only length-delimited ones."""
    found, at = [], 0
    while at < len(message):
        number, at = message[at] >> 3, at + 1
        size = shift = 0
        while True:
            byte, at = message[at], at + 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        found.append((number, message[at : at + size]))
        at += size
    return found


def unwrapped(body: bytes) -> tuple[str, str, bytes]:
    """The apiVersion, kind and contents of an envelope."""
    assert body.startswith(MAGIC)
    outer = dict(fields(body[len(MAGIC) :]))
    named = dict(fields(outer[1]))
    return named[1].decode(), named[2].decode(), outer[2]


def frames(pieces: bytes) -> list[tuple[str, bytes]]:
    """The events of a watch: type and body."""
    found = []
    while pieces:
        size = int.from_bytes(pieces[:4])
        event = dict(fields(pieces[4 : 4 + size]))
        found.append((event[1].decode(), dict(fields(event[2]))[1]))
        pieces = pieces[4 + size :]
    return found


async def get_response(served: Served, path: str, accept: str, method: str = "GET") -> Response:
    answer = await served.send(method, path, headers={"accept": accept})
    assert isinstance(answer, Response)
    return answer


async def watched(served: Served, path: str, accept: str) -> tuple[Streaming, bytes]:
    stream = await served.watch(path, accept=accept)
    return stream, b"".join([piece async for piece in stream.pieces])


def media(answer: Response | Streaming) -> str:
    return dict(answer.headers)["content-type"]


@pytest.mark.parametrize("accept", [PROTOBUF, f"{PROTOBUF},application/json", f"{PROTOBUF}, */*"])
def test_objects_are_the_same_in_both_encodings(accept: str) -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(PODS, pod("a"))
        answer = await get_response(served, f"{PODS}/a", accept)
        assert media(answer) == PROTOBUF
        assert decode(answer.body) == (await served.get(f"{PODS}/a")).body
        assert (await get_response(served, f"{PODS}/a", accept)).body == answer.body

    asyncio.run(scenario())


def test_list_items() -> None:
    async def scenario() -> None:
        served = await Served().started()
        for name in "abc":
            await served.post(MAPS, config_map(name, key=name))
        answer = await get_response(served, f"{MAPS}?limit=2", PROTOBUF)
        api_version, kind, raw = unwrapped(answer.body)
        assert (api_version, kind) == ("v1", "ConfigMapList")
        meta, *items = fields(raw)
        listed = (await served.get(f"{MAPS}?limit=2")).body
        assert dict(fields(meta[1][: meta[1].index(b"\x20")]))[2].decode() == listed["metadata"]["resourceVersion"]
        alone = [unwrapped((await get_response(served, f"{MAPS}/{name}", PROTOBUF)).body)[2] for name in "ab"]
        assert items == [(2, message) for message in alone]

    asyncio.run(scenario())


def test_watch_frames() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a", key="1"))
        path = f"{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        stream, pieces = await watched(served, f"{path}&timeoutSeconds=1", f"{PROTOBUF};stream=watch")
        assert media(stream) == f"{PROTOBUF};stream=watch"
        (added, body), (marked, mark) = frames(pieces)
        assert (added, marked) == ("ADDED", "BOOKMARK")
        assert decode(body) == (await served.get(f"{MAPS}/a")).body
        bookmark = decode(mark)
        assert bookmark["kind"] == "ConfigMap"
        assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}

    asyncio.run(scenario())


def test_an_expired_watch_ends_with_a_status() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a"))
        served.store.compact(served.store.revision)
        _, pieces = await watched(served, f"{MAPS}?watch=1&resourceVersion=1", PROTOBUF)
        ((sort, body),) = frames(pieces)
        assert (sort, decode(body)["reason"]) == ("ERROR", "Expired")

    asyncio.run(scenario())


def test_metadata_only_of_any_kind() -> None:
    async def scenario() -> None:
        served = await Served().started()
        assert (await served.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGETS)).code == 201
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "size": 3}
        assert (await served.post(WIDGET_PATH, widget)).code == 201
        answer = await get_response(served, f"{WIDGET_PATH}/w", PARTIAL)
        api_version, kind, raw = unwrapped(answer.body)
        assert (api_version, kind) == ("meta.k8s.io/v1", "PartialObjectMetadata")
        # A Namespace message has its metadata in the same field.
        shown = decode(MAGIC + bytes([0x12, len(raw) & 127 | 128, len(raw) >> 7]) + raw, "v1", "Namespace")
        assert shown["metadata"] == (await served.get(f"{WIDGET_PATH}/w")).body["metadata"]
        lists = PARTIAL.replace("Metadata;", "MetadataList;")
        _, kind, raw_list = unwrapped((await get_response(served, WIDGET_PATH, lists)).body)
        assert kind == "PartialObjectMetadataList"
        assert fields(raw_list)[1:] == [(2, raw)]
        _, pieces = await watched(served, f"{WIDGET_PATH}?watch=1&timeoutSeconds=1", PARTIAL)
        assert frames(pieces) == [("ADDED", answer.body)]

    asyncio.run(scenario())


def test_tables_and_custom_resources_are_never_protobuf() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGETS)
        table = f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1"
        refused = await get_response(served, CLAIMS, table)
        assert (refused.code, media(refused)) == (406, "application/json")
        instead = await get_response(served, CLAIMS, f"{table},application/json")
        assert json.loads(instead.body)["kind"] == "ResourceClaimList"
        refused = await get_response(served, WIDGET_PATH, PROTOBUF)
        assert (refused.code, media(refused)) == (406, PROTOBUF)
        assert decode(refused.body)["message"].startswith("only the following media types are accepted: ")
        assert json.loads((await get_response(served, WIDGET_PATH, f"{PROTOBUF}, */*")).body)["kind"] == "WidgetList"

    asyncio.run(scenario())


def test_status_responses_are_protobuf() -> None:
    async def scenario() -> None:
        served = await Served().started()
        missing = await get_response(served, f"{MAPS}/nope", PROTOBUF)
        assert (missing.code, media(missing)) == (404, PROTOBUF)
        expected = (await served.get(f"{MAPS}/nope")).body
        assert decode(missing.body) == expected
        await served.post(MAPS, config_map("a"))
        gone = await get_response(served, f"{MAPS}/a", PROTOBUF, "DELETE")
        assert decode(gone.body)["status"] == "Success"

    asyncio.run(scenario())
