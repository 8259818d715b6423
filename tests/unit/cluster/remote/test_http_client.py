from __future__ import annotations

import asyncio
import gc
import json
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from allotment.apiserver.http_messages import AnyResponse, Request, Response, Streaming
from allotment.cluster.client import Client, Resource, WatchEvent
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.gc_pause import gc_paused
from allotment.cluster.remote.connection import LATER_SECONDS, WriteBlock
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import ClusterTarget, CredentialPlugin
from allotment.lab import certificates
from allotment.lab.http_server import Server, server_context
from allotment.model.trees import Tree

PODS = Resource("", "v1", "pods", "Pod", True)
NODES = Resource("", "v1", "nodes", "Node", False)
JSON = (("Content-Type", "application/json"),)


def answer(tree: Any, code: int = 200, *headers: tuple[str, str]) -> Response:
    return Response(code, (*JSON, *headers), json.dumps(tree).encode())


def refusal(code: int, reason: str, *headers: tuple[str, str]) -> Response:
    return answer({"kind": "Status", "message": f"it is {reason}", "reason": reason, "code": code}, code, *headers)


class Scripted:
    """A server with prepared answers that records its requests."""

    def __init__(self, *answers: AnyResponse) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []

    async def __call__(self, request: Request) -> AnyResponse:
        self.requests.append(request)
        return self.answers.pop(0)

    def lines(self) -> list[str]:
        """Method, path and query of the requests."""
        return [f"{r.method} {r.path}{'?' if r.query else ''}{r.query}" for r in self.requests]


def run_with_client(
    server: Scripted, scenario: Callable[[HttpClient], Awaitable[Any]], *, retry_seconds: float = 0,
    later_seconds: float = LATER_SECONDS, write_block: WriteBlock | None = None, **more: Any,
) -> None:  # fmt: skip
    """Run ``scenario`` with a client of an HTTP server without TLS."""

    async def main() -> None:
        serving = Server(server)
        port = await serving.listen("127.0.0.1", 0)
        target = ClusterTarget(f"http://127.0.0.1:{port}", **more)
        async with HttpClient(
            target, "tests", retry_seconds=retry_seconds, later_seconds=later_seconds, write_block=write_block
        ) as client:  # fmt: skip
            await scenario(client)
        await serving.stop(1)

    asyncio.run(main())


def test_the_client_implements_the_protocol() -> None:
    client: Client = HttpClient(ClusterTarget("http://nowhere"))
    assert callable(client.watch)


def test_reads_and_writes_are_what_the_api_expects() -> None:
    pod = {"metadata": {"name": "a", "namespace": "n"}}
    server = Scripted(*[answer(pod)] * 7)

    async def scenario(client: HttpClient) -> None:
        assert await client.get(PODS, "a", "n", subresource="status") == pod
        await client.create(PODS, pod, dry_run=True)
        await client.create(PODS, {"target": {}}, "n", name="a", subresource="binding")
        await client.update(PODS, pod, subresource="status")
        await client.patch(PODS, "a", {"x": None}, "n")
        await client.patch(PODS, "a", pod, "n", kind="apply", force=True)
        await client.delete(PODS, "a", "n", uid="u", grace_seconds=0, propagation="Background", dry_run=True)

    run_with_client(server, scenario)
    assert server.lines() == [
        "GET /api/v1/namespaces/n/pods/a/status",
        "POST /api/v1/namespaces/n/pods?fieldManager=tests&dryRun=All",
        "POST /api/v1/namespaces/n/pods/a/binding?fieldManager=tests",
        "PUT /api/v1/namespaces/n/pods/a/status?fieldManager=tests",
        "PATCH /api/v1/namespaces/n/pods/a?fieldManager=tests",
        "PATCH /api/v1/namespaces/n/pods/a?fieldManager=tests&force=true",
        "DELETE /api/v1/namespaces/n/pods/a",
    ]
    types = [request.headers.get("content-type") for request in server.requests]
    assert types[4:] == ["application/merge-patch+json", "application/apply-patch+yaml", "application/json"]
    assert json.loads(server.requests[6].body) == {
        "kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "u"}, "gracePeriodSeconds": 0,
        "propagationPolicy": "Background", "dryRun": ["All"],
    }  # fmt: skip


def page(*names: str, token: str = "") -> Response:
    metadata = {"resourceVersion": "7"} | ({"continue": token} if token else {})
    items = [{"metadata": {"name": name}} for name in names]
    return answer({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items})


def test_a_list_is_read_through_to_its_last_page() -> None:
    server = Scripted(page("a", "b", token="t=="), page("c"))

    async def scenario(client: HttpClient) -> None:
        listing = await client.list(PODS, labels="x in (a,b)", fields="spec.nodeName=n", limit=2)
        assert [item["metadata"]["name"] for item in listing.items] == ["a", "b", "c"]
        assert {(item["kind"], item["apiVersion"]) for item in listing.items} == {("Pod", "v1")}
        assert listing.revision == "7"

    run_with_client(server, scenario)
    query = "labelSelector=x%20in%20%28a%2Cb%29&fieldSelector=spec.nodeName%3Dn&limit=2"
    assert [line.replace("+", "%20") for line in server.lines()] == [
        f"GET /api/v1/pods?{query}", f"GET /api/v1/pods?{query}&continue=t%3D%3D",
    ]  # fmt: skip


def test_a_list_whose_token_expired_is_read_again_and_whole() -> None:
    server = Scripted(page("a", token="t"), refusal(410, "Expired"), page("a", "b", "c"))

    async def scenario(client: HttpClient) -> None:
        assert len((await client.list(PODS)).items) == 3

    run_with_client(server, scenario)
    assert server.lines()[2] == "GET /api/v1/pods"


def stream(*pieces: bytes) -> Streaming:
    async def send() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece
            await asyncio.sleep(0.01)

    return Streaming(200, JSON, send())


def test_watch_events_are_independent_of_chunk_boundaries() -> None:
    line = json.dumps({"type": "ADDED", "object": {"metadata": {"name": "a\u2028"}}}, ensure_ascii=False).encode()
    mark = b'{"type":"BOOKMARK","object":{}}\n{"type":"NEWS"}\n'
    server = Scripted(stream(line[:10], line[10:] + b"\n" + mark[:5], mark[5:]))

    async def scenario(client: HttpClient) -> None:
        events = [event async for event in client.watch(PODS, "n", revision="5", labels="a=b")]
        assert events == [WatchEvent("ADDED", {"metadata": {"name": "a\u2028"}}), WatchEvent("BOOKMARK", {})]

    run_with_client(server, scenario)
    assert server.lines()[0].startswith(
        "GET /api/v1/namespaces/n/pods?watch=true&resourceVersion=5&allowWatchBookmarks=true&timeoutSeconds="
    )


def test_an_error_in_a_watch_is_raised() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (5)"}
    server = Scripted(stream(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"))

    async def scenario(client: HttpClient) -> None:
        with pytest.raises(StatusError, match="too old") as raised:
            [event async for event in client.watch(PODS, revision="1")]
        assert (raised.value.code, raised.value.reason) == (410, "Expired")

    run_with_client(server, scenario)


def test_a_log_is_streamed_as_bytes() -> None:
    server = Scripted(stream(b"line 0\n", b"line 1\n"))

    async def scenario(client: HttpClient) -> None:
        path = PODS.path("n", "a", "log")
        assert b"".join([piece async for piece in client.stream(path, [("follow", "true")])]) == b"line 0\nline 1\n"

    run_with_client(server, scenario)
    assert server.lines() == ["GET /api/v1/namespaces/n/pods/a/log?follow=true"]


def test_an_error_has_the_status_of_the_server() -> None:
    server = Scripted(refusal(404, "NotFound"), Response(502, (("Content-Type", "text/html"),), b"<h1>Bad Gateway"))

    async def scenario(client: HttpClient) -> None:
        with pytest.raises(StatusError, match="it is NotFound") as raised:
            await client.get(NODES, "n1")
        assert (raised.value.code, raised.value.reason) == (404, "NotFound")
        with pytest.raises(StatusError, match=r"/api/v1/nodes/n1 responded with 502: <h1>Bad Gateway") as raised:
            await client.get(NODES, "n1")
        assert raised.value.code == 502

    run_with_client(server, scenario)


def test_an_error_leaves_no_reference_cycles() -> None:
    """The garbage collector may run late, and some servers reject many requests."""
    server = Scripted(*[refusal(409, "OnlyHere")] * 3)

    async def scenario(client: HttpClient) -> None:
        for _ in range(3):
            with suppress(StatusError):
                await client.update(NODES, {"kind": "Node", "metadata": {"name": "n1"}})
            assert not [
                value for value in gc.get_objects() if isinstance(value, StatusError) and value.reason == "OnlyHere"
            ]

    with gc_paused():
        run_with_client(server, scenario)


def test_retry_after_delays_the_next_attempt() -> None:
    busy = refusal(429, "TooManyRequests", ("Retry-After", "0"))
    server = Scripted(busy, busy, answer({"kind": "Node"}), *[busy] * 11, refusal(429, "TooManyRequests"))

    async def scenario(client: HttpClient) -> None:
        assert await client.get(NODES, "n1") == {"kind": "Node"}
        with pytest.raises(StatusError, match="TooManyRequests"):
            await client.create(NODES, {"kind": "Node"})
        assert len(server.requests) == 3 + 11
        with pytest.raises(StatusError, match="TooManyRequests"):  # without Retry-After the caller decides
            await client.get(NODES, "n1")

    run_with_client(server, scenario)


@pytest.mark.parametrize("name", ["../secrets", "a/status", "..", "."])
def test_a_name_cannot_change_the_path(name: str) -> None:
    server = Scripted()

    async def scenario(client: HttpClient) -> None:
        with pytest.raises(StatusError, match="may not contain '/'"):
            await client.get(NODES, name)

    run_with_client(server, scenario)
    assert server.requests == []


def test_special_characters_in_names_are_escaped() -> None:
    server = Scripted(refusal(404, "NotFound"))

    async def scenario(client: HttpClient) -> None:
        with pytest.raises(StatusError):
            await client.get(NODES, "system:a?b#c%")

    run_with_client(server, scenario)
    assert server.lines() == ["GET /api/v1/nodes/system:a%3Fb%23c%25"]


def test_an_unreachable_server_is_reported_with_the_request() -> None:
    async def scenario() -> None:
        async with HttpClient(ClusterTarget("http://127.0.0.1:1")) as client:
            with pytest.raises(Unreachable, match=r"GET http://127\.0\.0\.1:1/api/v1/nodes/n1: "):
                await client.get(NODES, "n1")
            with pytest.raises(Unreachable):
                [event async for event in client.watch(NODES, revision="1")]
        server = Scripted(Response(200, JSON, b"<html>"))
        serving = Server(server)
        port = await serving.listen("127.0.0.1", 0)
        async with HttpClient(ClusterTarget(f"http://127.0.0.1:{port}")) as client:
            with pytest.raises(Unreachable, match="expected a JSON object, found '<html>'"):
                await client.get(NODES, "n1")
        await serving.stop(1)

    asyncio.run(scenario())


def test_an_invalid_list_is_an_error_and_not_empty() -> None:
    strange: tuple[Tree, ...] = ({}, {"kind": "Status", "status": "Success"}, {"login": "https://sso"})
    server = Scripted(*map(answer, strange), answer({"kind": "PodList", "metadata": {}, "items": None}))

    async def scenario(client: HttpClient) -> None:
        for _ in strange:
            with pytest.raises(Unreachable, match=r"/api/v1/pods: expected a list, found "):
                await client.list(PODS)
        assert (await client.list(PODS)).items == []

    run_with_client(server, scenario)


def test_only_an_api_server_response_means_not_found() -> None:
    strangers = [Response(404, (), body) for body in (b"<html>404 Not Found</html>", b"default backend - 404", b"")]
    server = Scripted(*strangers, refusal(404, "NotFound"), Response(404, (), b"404 page not found\n"))

    async def scenario(client: HttpClient) -> None:
        for _ in strangers:
            with pytest.raises(Unreachable, match=r"GET .*/api/v1/nodes/n1: 404, not from an API server"):
                await client.get(NODES, "n1")
        for _ in range(2):  # for an object and for a resource
            with pytest.raises(StatusError) as raised:
                await client.get(NODES, "n1")
            assert raised.value.code == 404

    run_with_client(server, scenario)


def test_a_watch_on_a_hanging_server_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allotment.cluster.remote.http_client._SILENT_SECONDS", 0.2)

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        event = b'{"type":"ADDED","object":{}}\n'
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(event), event))
        await reader.read()
        writer.close()

    async def scenario() -> None:
        listener = await asyncio.start_server(hang, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        async with HttpClient(ClusterTarget(f"http://127.0.0.1:{port}")) as client:
            assert [event.type async for event in client.watch(NODES, revision="1")] == ["ADDED"]
        listener.close()
        await listener.wait_closed()

    asyncio.run(scenario())


def test_a_broken_watch_is_unreachable() -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n{"type":"ADDED","object":{}}\n   ')
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def scenario() -> None:
        listener = await asyncio.start_server(break_off, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        async with HttpClient(ClusterTarget(f"http://127.0.0.1:{port}")) as client:
            watch = client.watch(NODES, revision="1")
            assert (await anext(watch)).type == "ADDED"
            with pytest.raises(Unreachable):
                await anext(watch)
        listener.close()
        await listener.wait_closed()

    asyncio.run(scenario())


def test_tokens_passwords_and_impersonation_are_sent(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"token": "t"}, "Bearer t"),
        ({"token_file": tmp_path / "token", "token": "stale"}, "Bearer from-file"),
        ({"user": "u", "password": "p"}, "Basic dTpw"),
    ]
    for more, expected in cases:
        server = Scripted(answer({}))

        async def scenario(client: HttpClient) -> None:
            await client.get(NODES, "n1")

        run_with_client(server, scenario, impersonation=(("Impersonate-User", "jane"),), **more)
        assert server.requests[0].headers["authorization"] == expected
        assert server.requests[0].headers["impersonate-user"] == "jane"


def plugin(folder: Path, script: str) -> CredentialPlugin:
    path = folder / "login"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return CredentialPlugin(
        str(path), ("world",), (("GREETING", "hello"),), "client.authentication.k8s.io/v1", "install it"
    )


def test_a_plugin_runs_again_when_its_token_is_rejected(tmp_path: Path) -> None:
    script = f"""echo run >> {tmp_path}/runs
echo '{{"status": {{"token": "'$GREETING-$1-$(wc -l < {tmp_path}/runs | tr -d ' ')'"}}}}'"""
    server = Scripted(answer({}), answer({}), refusal(401, "Unauthorized"), answer({}), *[refusal(401, "U")] * 2)

    async def scenario(client: HttpClient) -> None:
        for _ in range(3):
            await client.get(NODES, "n1")
        with pytest.raises(StatusError):
            await client.get(NODES, "n1")

    run_with_client(server, scenario, plugin=plugin(tmp_path, script))
    tokens = [request.headers["authorization"].removeprefix("Bearer hello-world-") for request in server.requests]
    assert tokens == ["1", "1", "1", "2", "2", "3"]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo no luck >&2; exit 3", "failed with exit code 3: no luck"),
        ("echo nothing", "did not print an ExecCredential"),
        ("echo '{}'", "its status has neither token nor clientCertificateData"),
    ],
)
def test_a_failed_plugin_is_reported(tmp_path: Path, script: str, message: str) -> None:
    async def scenario(client: HttpClient) -> None:
        with pytest.raises(Unreachable, match=message):
            await client.get(NODES, "n1")

    run_with_client(Scripted(), scenario, plugin=plugin(tmp_path, script))


def test_a_missing_plugin_is_reported_with_its_install_hint() -> None:
    async def scenario(client: HttpClient) -> None:
        with pytest.raises(Unreachable, match=r"cannot be started: No such file or directory\. install it"):
            await client.get(NODES, "n1")

    run_with_client(
        Scripted(),
        scenario,
        plugin=CredentialPlugin("/not/there", (), (), "client.authentication.k8s.io/v1", "install it"),
    )


def test_tls_with_a_client_certificate_and_a_server_name(tmp_path: Path) -> None:
    made = certificates.ensure(tmp_path, datetime.now(UTC), ["kubernetes"])
    authority = made.authority.read_bytes()

    async def identify(request: Request) -> AnyResponse:
        return answer({"name": request.peer.name if request.peer else ""})

    async def scenario() -> None:
        serving = Server(identify)
        port = await serving.listen("127.0.0.1", 0, server_context(*made.server, made.authority))
        target = ClusterTarget(f"https://127.0.0.1:{port}", authority=authority)
        with_certificate = target._replace(
            certificate=made.admin.certificate.read_bytes(), key=made.admin.key.read_bytes()
        )
        for given, name in [
            (target, ""),
            (with_certificate, "allotment-admin"),
            (with_certificate._replace(server_name="kubernetes"), "allotment-admin"),
            (target._replace(authority=b"", insecure=True), ""),
        ]:
            async with HttpClient(given) as client:
                assert await client.read("/") == {"name": name}
        for given, message in [
            (target._replace(authority=b""), "certificate verify failed"),
            (target._replace(server_name="other"), "certificate is not valid for 'other'"),
            (target._replace(authority=b"x"), "the certificate authority is not in PEM format"),
            (with_certificate._replace(key=b"x"), "the client certificate and key cannot be used"),
        ]:
            async with HttpClient(given) as client:
                with pytest.raises(Unreachable, match=message):
                    await client.read("/")
        await serving.stop(1)

    asyncio.run(scenario())
