"""Watches over WebSocket, as pages in browsers open them; recorded from kube-apiserver 1.36."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import pytest

from allotment.cluster.client import Resource
from allotment.cluster.resources import CONFIG_MAPS, SERVICE_ACCOUNTS
from tests.cluster.backends import Backend, Scenario, ScenarioInput
from tests.cluster.objects import config_map
from tests.cluster.websocket_watch import BEARER, PLAIN, Server, WebSocket, bearer, opened

ORIGIN: Final = "Origin: http://localhost:4466"
BINDINGS: Final = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", True)
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Visitor(NamedTuple):
    """A user with a token and the permission to read the namespace of a scenario."""

    server: Server
    token: str
    path: str

    @asynccontextmanager
    async def watch(
        self, query: str = "", protocols: Sequence[str] | None = None, lines: Sequence[str] = (ORIGIN,)
    ) -> AsyncIterator[WebSocket]:
        """Open a watch of the ConfigMaps, by default as Headlamp does."""
        offered = (PLAIN, bearer(self.token)) if protocols is None else protocols
        async with opened(self.server, f"{self.path}?watch=true{query}", offered, *lines) as socket:
            yield socket


async def visitor(backend: Backend, given: ScenarioInput) -> Visitor:
    """Create a user in the namespace of a scenario."""
    assert backend.server is not None
    await given.client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "visitor"}}, given.namespace)
    subject = {"kind": "ServiceAccount", "name": "visitor", "namespace": given.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    binding = {"metadata": {"name": "visitor"}, "subjects": [subject], "roleRef": role}
    await given.client.create(BINDINGS, binding, given.namespace)
    answer = await given.client.create(
        SERVICE_ACCOUNTS, {"spec": {"audiences": []}}, given.namespace, name="visitor", subresource="token"
    )
    found = Visitor(
        backend.server, answer["status"]["token"], f"/api/v1/namespaces/{given.namespace}/configmaps"
    )  # fmt: skip
    while True:  # the binding takes effect a moment later
        async with found.watch() as socket:
            if socket.code == 101:
                return found


def run(backend: Backend, scenario: Scenario) -> None:
    if backend.server is None:
        pytest.skip("the client in the process of the lab has no connection")
    backend.run(scenario)


async def event(socket: WebSocket) -> Any:
    """The next event, which is one text with one line."""
    frame = await socket.frame()
    assert frame.opcode == TEXT
    assert frame.payload.count(b"\n") == 1
    assert frame.payload.endswith(b"}\n")
    return json.loads(frame.payload)


def test_each_event_is_a_message(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        user = await visitor(backend, given)
        for name in "ab":
            await given.client.create(CONFIG_MAPS, config_map(name, labels={"of": "us"}), given.namespace)
        async with user.watch("&labelSelector=of%3Dus") as socket:
            assert socket.headers["sec-websocket-protocol"] == PLAIN
            assert [(await event(socket))["object"]["metadata"]["name"] for _ in range(2)] == ["a", "b"]
            await given.client.patch(CONFIG_MAPS, "a", {"data": {"of": "us\n"}}, given.namespace)
            changed = await event(socket)
            assert (changed["type"], changed["object"]["data"]) == ("MODIFIED", {"of": "us\n"})
            socket.send(TEXT, b"is ignored")
            socket.send(PING, b"still there?")
            assert await socket.frame() == (PONG, b"still there?")
            socket.send(CLOSE, b"\x03\xe8")
            assert await socket.frame() == (CLOSE, b"\x03\xe8")
            assert await socket.reader.read() == b""

    run(backend, scenario)


def test_a_watch_ends_with_a_close_frame(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        user = await visitor(backend, given)
        async with user.watch("&timeoutSeconds=1&labelSelector=of%3Dus") as socket:
            assert await socket.frame() == (CLOSE, b"\x03\xe8")

    run(backend, scenario)


def test_other_forms_of_objects(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        user = await visitor(backend, given)
        await given.client.create(CONFIG_MAPS, config_map("a", labels={"of": "us"}), given.namespace)
        table = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"
        async with user.watch("&labelSelector=of%3Dus", lines=(ORIGIN, table)) as socket:
            assert (await event(socket))["object"]["kind"] == "Table"
        protobuf = "Accept: application/vnd.kubernetes.protobuf"
        async with user.watch("&labelSelector=of%3Dus", lines=(ORIGIN, protobuf)) as socket:
            frame = await socket.frame()
            assert (frame.opcode, frame.payload[:7]) == (BINARY, b"\n\x05ADDED")
            assert b"k8s\x00" in frame.payload
        async with user.watch(lines=(ORIGIN, "Accept: application/yaml")) as socket:
            assert socket.code == 406

    run(backend, scenario)


def test_tokens(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        user = await visitor(backend, given)
        own, header = bearer(user.token), f"Authorization: Bearer {user.token}"
        for protocols, lines, code in [
            ((own, PLAIN), [ORIGIN], 101),
            ((), [ORIGIN, header], 101),
            (("any",), [ORIGIN, header], 101),
            ((PLAIN, own), [ORIGIN, "Authorization: Bearer wrong"], 101),
            ((own,), [ORIGIN], 401),  # a server must accept one of those that a client offers
            ((PLAIN, bearer("wrong")), [ORIGIN], 401),
            ((PLAIN, own, own), [ORIGIN], 401),
            ((PLAIN, f"{own}=="), [ORIGIN], 401),
            ((PLAIN, f"{BEARER}%%%"), [ORIGIN], 401),
            ((PLAIN, f"{BEARER}_w"), [ORIGIN], 401),  # not UTF-8
            ((PLAIN,), [ORIGIN], 403),  # anonymous
        ]:
            async with user.watch("", protocols, lines) as socket:
                assert socket.code == code, (protocols, lines)
                if code == 101:
                    accepted = next((name for name in protocols if name != own), None)
                    assert socket.headers.get("sec-websocket-protocol") == accepted

    run(backend, scenario)


def test_an_origin_is_required_and_one_protocol_at_most(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        user = await visitor(backend, given)
        own = bearer(user.token)
        for protocols, lines, code in [
            ((PLAIN, own), [], 403),
            ((PLAIN, own), ["Origin: null"], 403),
            ((PLAIN, own), ["Origin: :::"], 403),
            ((PLAIN, "other", own), [ORIGIN], 400),
        ]:
            async with user.watch("", protocols, lines) as socket:
                assert socket.code == code, (protocols, lines)

    run(backend, scenario)


def test_requests_that_are_no_watch_get_an_ordinary_response(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        user = await visitor(backend, given)
        async with opened(user.server, user.path, (PLAIN, bearer(user.token)), ORIGIN) as socket:
            assert socket.code == 200
            body = await socket.reader.readexactly(int(socket.headers["content-length"]))
            assert json.loads(body)["kind"] == "ConfigMapList"
        async with user.watch("&resourceVersion=x") as socket:
            assert socket.code == 500

    run(backend, scenario)
