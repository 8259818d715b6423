"""Failed requests and which of them are retried; proxies; servers that restart."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from itertools import chain, repeat
from pathlib import Path
from random import Random
from typing import Any

import pytest

from allotment.apiserver.http_messages import AnyResponse, Request, Response
from allotment.cluster.cache import Cache
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.cluster.resources import NODES
from allotment.lab import certificates
from allotment.lab.http_server import Server, server_context
from allotment.model.trees import Tree
from tests.polling import until
from tests.unit.cluster.remote.test_http_client import Scripted, answer, refusal, run_with_client

NODE = {"metadata": {"name": "n1"}}
VERSIONED = {"metadata": {"name": "n1", "resourceVersion": "7"}}
PINNED = {"metadata": {"uid": "u"}}
#: A response for every request.
ANSWER: Tree = {"kind": "Node", "items": []}

SendRequest = Callable[[HttpClient], Awaitable[Any]]

#: Requests, and whether they can be repeated safely.
REQUESTS: dict[str, tuple[SendRequest, bool]] = {
    "get": (lambda c: c.get(NODES, "n1"), True),
    "list": (lambda c: c.list(NODES), True),
    "update": (lambda c: c.update(NODES, VERSIONED), True),
    "update of any version": (lambda c: c.update(NODES, NODE), False),
    "merge patch with uid": (lambda c: c.patch(NODES, "n1", PINNED), True),
    "merge patch without uid": (lambda c: c.patch(NODES, "n1", {"spec": {}}), False),
    "json patch": (lambda c: c.patch(NODES, "n1", [{"op": "add", "path": "/a/-", "value": 1}], kind="json"), False),
    "apply": (lambda c: c.patch(NODES, "n1", NODE, kind="apply"), True),
    "delete with uid": (lambda c: c.delete(NODES, "n1", uid="u"), True),
    "delete without uid": (lambda c: c.delete(NODES, "n1"), False),
    "create": (lambda c: c.create(NODES, NODE), False),
    "dry run of create": (lambda c: c.create(NODES, NODE, dry_run=True), True),
}


@pytest.mark.parametrize("code", [502, 503, 504])
@pytest.mark.parametrize("verb", REQUESTS)
def test_requests_lost_by_a_proxy_are_repeated_if_safe(verb: str, code: int) -> None:
    send, repeatable = REQUESTS[verb]
    server = Scripted(Response(code, (), b"no backend"), Response(code, (), b""), answer(ANSWER))

    async def scenario(client: HttpClient) -> None:
        if repeatable:
            await send(client)
        else:
            with pytest.raises(StatusError) as raised:
                await send(client)
            assert raised.value.code == code

    run_with_client(server, scenario, retry_seconds=5)
    assert len(server.requests) == (3 if repeatable else 1)


@pytest.mark.parametrize("verb", REQUESTS)
@pytest.mark.parametrize("code", [429, 500, 503])
def test_retry_after_is_respected_for_every_verb(verb: str, code: int) -> None:
    send, _ = REQUESTS[verb]
    server = Scripted(refusal(code, "later", ("Retry-After", "0")), answer(ANSWER))
    run_with_client(server, send, retry_seconds=0)
    assert len(server.requests) == 2


def test_a_closed_client_opens_no_connection() -> None:
    async def scenario() -> None:
        client = HttpClient(ClusterTarget("http://127.0.0.1:9"))
        await client.close()
        with pytest.raises(Unreachable, match="not sent: the client was closed"):
            await client.get(NODES, "n1")

    asyncio.run(scenario())


def test_retries_end_after_the_retry_time() -> None:
    async def scenario() -> None:
        async def lost(request: Request) -> AnyResponse:
            return Response(503, (), b"")

        serving = Server(lost)
        port = await serving.listen("127.0.0.1", 0)
        async with HttpClient(ClusterTarget(f"http://127.0.0.1:{port}"), retry_seconds=0.6) as client:
            started = time.monotonic()
            with pytest.raises(StatusError) as raised:
                await client.get(NODES, "n1")
            assert raised.value.code == 503
            assert 0.3 < time.monotonic() - started < 30
        await serving.stop(1)

    asyncio.run(scenario())


@pytest.mark.parametrize(("most", "times"), [(1.5, 2), (0, 1)])
def test_the_number_of_retries_is_limited(most: float, times: int) -> None:
    server = Scripted(*[refusal(429, "TooManyRequests", ("Retry-After", "1"))] * 3)

    async def scenario(client: HttpClient) -> None:
        with pytest.raises(StatusError):
            await client.get(NODES, "n1")

    run_with_client(server, scenario, later_seconds=most)
    assert len(server.requests) == times


@asynccontextmanager
async def breaking(*breaks: bool) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that for each request closes the connection after reading it, or answers."""
    turns = iter(breaks)
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                heads.append(head.split(b" ")[0])
                for line in head.split(b"\r\n"):
                    if line.lower().startswith(b"content-length:"):
                        await reader.readexactly(int(line.split(b":")[1]))
                if next(turns, False):
                    return
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1], heads
    finally:
        listener.close()
        await listener.wait_closed()


def test_a_broken_connection_is_retried_if_safe() -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            port, heads = await stack.enter_async_context(breaking(False, True, True, False, True))
            client = await stack.enter_async_context(HttpClient(ClusterTarget(f"http://127.0.0.1:{port}")))
            await client.get(NODES, "n1")
            await client.patch(NODES, "n1", PINNED)
            with pytest.raises(Unreachable, match=r"POST http://127\.0\.0\.1:\d+/api/v1/nodes"):
                await client.create(NODES, NODE)
        assert heads == [b"GET", *[b"PATCH"] * 3, b"POST"]

    asyncio.run(scenario())


def test_only_a_server_that_was_reached_before_is_waited_for() -> None:
    async def scenario() -> None:
        async def node(request: Request) -> AnyResponse:
            return answer({"kind": "Node", "metadata": {"name": request.method}})

        kept = socket.socket()  # reserves the port
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        port = kept.getsockname()[1]
        first = Server(node)
        await first.listen("127.0.0.1", port)
        async with HttpClient(ClusterTarget(f"http://127.0.0.1:{port}"), retry_seconds=50) as client:
            await client.get(NODES, "n1")
            await first.stop(1)
            # The request cannot have reached the server, so even an unsafe one is retried.
            pending = asyncio.create_task(client.create(NODES, NODE))
            await asyncio.sleep(0.3)
            assert not pending.done()
            second = Server(node)
            await second.listen("127.0.0.1", port)
            assert (await pending)["metadata"]["name"] == "POST"
            await second.stop(1)
        async with HttpClient(ClusterTarget(f"http://127.0.0.1:{port}"), retry_seconds=3600) as client:
            with pytest.raises(Unreachable):
                await client.get(NODES, "n1")
        kept.close()

    asyncio.run(scenario())


def test_a_slow_tls_handshake_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """As of a server that has just started on a busy machine; the request cannot have reached it."""
    monkeypatch.setattr("allotment.cluster.remote.connection._CONNECT_SECONDS", 1.0)
    made = certificates.ensure(tmp_path, datetime.now(UTC), [])

    async def scenario() -> None:
        given_up = asyncio.Event()

        async def node(request: Request) -> AnyResponse:
            return answer({"kind": "Node", "metadata": {"name": request.method}})

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError):
                await reader.read()
            given_up.set()
            writer.close()

        async def met() -> bool:
            with suppress(Unreachable):
                return bool(await client.get(NODES, "n1"))
            return False

        kept = socket.socket()  # reserves the port
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        port = kept.getsockname()[1]
        first, second = Server(node), Server(node)
        await first.listen("127.0.0.1", port, server_context(*made.server, made.authority))
        target = ClusterTarget(f"https://127.0.0.1:{port}", authority=made.authority.read_bytes())
        async with HttpClient(target, retry_seconds=300) as client:
            await until(met)
            await first.stop(1)
            async with await asyncio.start_server(silent, "127.0.0.1", port):
                pending = asyncio.create_task(client.create(NODES, NODE))
                await given_up.wait()
            await second.listen("127.0.0.1", port, server_context(*made.server, made.authority))
            assert (await pending)["metadata"]["name"] == "POST"
            await second.stop(1)
        kept.close()

    asyncio.run(scenario())


def test_a_silent_server_times_out() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
        finally:
            writer.close()

    async def scenario() -> None:
        listener = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        async with HttpClient(ClusterTarget(f"http://127.0.0.1:{port}"), timeout_seconds=0.2) as client:
            with pytest.raises(Unreachable, match="no response in time"):
                await client.get(NODES, "n1")
        listener.close()
        await listener.wait_closed()

    asyncio.run(scenario())


def test_a_cache_continues_after_a_server_restart() -> None:
    """A broken watch continues at its last revision, including that of a bookmark."""

    async def scenario() -> None:
        revisions: list[str] = []

        def watched(*lines: Tree) -> bytes:
            return b"".join(json.dumps(line).encode() + b"\n" for line in lines)

        def of(name: str, revision: int) -> Tree:
            return {"metadata": {"name": name, "resourceVersion": str(revision)}, "kind": "Node", "apiVersion": "v1"}

        watches = [
            watched({"type": "ADDED", "object": of("b", 11)}),
            watched({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "20"}}}),
            watched({"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcd leader changed"}}),
            watched({"type": "MODIFIED", "object": of("b", 21)}),
            watched({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}),
        ]

        async def serve(request: Request) -> AnyResponse:
            words = dict(pair.partition("=")[::2] for pair in request.query.split("&"))
            if "fieldSelector" in words:
                return answer({"kind": "NodeList", "metadata": {"resourceVersion": "29"}, "items": []})
            if "watch" not in words:
                revisions.append("list")
                revision = "10" if revisions.count("list") == 1 else "30"
                names = ["a"] if revisions.count("list") == 1 else ["c"]
                items = [of(name, int(revision)) for name in names]
                return answer({"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": revision},
                               "items": items})  # fmt: skip
            revisions.append(words["resourceVersion"])
            return Response(200, (("Content-Type", "application/json"),), watches.pop(0) if watches else b"")

        serving = Server(serve)
        port = await serving.listen("127.0.0.1", 0)
        async with HttpClient(ClusterTarget(f"http://127.0.0.1:{port}")) as client:
            cache: Cache[Tree] = Cache(client, NODES, clock=Clock(100), random=Random(1))
            running = asyncio.create_task(cache.run())
            await until(lambda: cache.item("", "c"))
            running.cancel()
            await asyncio.wait([running])
            assert [item.name for item in cache.items()] == ["c"]
        await serving.stop(1)
        assert revisions[:7] == ["list", "10", "11", "20", "20", "21", "list"]

    asyncio.run(scenario())


@asynccontextmanager
async def proxy(tls: ssl.SSLContext | None = None, refuse: bytes = b"") -> AsyncIterator[tuple[int, list[str]]]:
    """A proxy; yields its port and the first lines of its requests."""
    first_lines: list[str] = []
    tasks: set[asyncio.Task[None]] = set()

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except (ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            writer.close()
            return
        first, _, rest = head.partition(b"\r\n")
        first_lines.append(first.decode())
        method, where, _ = first.decode().split(" ")
        if refuse:
            writer.write(refuse)
            writer.close()
            return
        if method == "CONNECT":
            # The server is local, independent of the requested name.
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", int(where.rpartition(":")[2]))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            host, _, path = where.removeprefix("http://").partition("/")
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", int(host.rpartition(":")[2]))
            server_writer.write(f"{method} /{path} HTTP/1.1\r\n".encode() + rest)
        for pair in ((reader, server_writer), (server_reader, writer)):
            task = asyncio.create_task(pipe(*pair))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield listener.sockets[0].getsockname()[1], first_lines
    finally:
        listener.close()
        for task in tuple(tasks):
            task.cancel()
        await listener.wait_closed()


@pytest.fixture
def made(tmp_path: Path) -> certificates.Certificates:
    return certificates.ensure(tmp_path, datetime.now(UTC), ["kubernetes"])


def test_a_proxy_tunnels_tls(made: certificates.Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async def identify(request: Request) -> AnyResponse:
            return answer({"name": request.peer.name if request.peer else ""})

        serving = Server(identify)
        port = await serving.listen("127.0.0.1", 0, server_context(*made.server, made.authority))
        target = ClusterTarget(
            f"https://cluster.example.com:{port}", authority=made.authority.read_bytes(), server_name="kubernetes",
            certificate=made.admin.certificate.read_bytes(), key=made.admin.key.read_bytes(),
        )  # fmt: skip
        async with proxy() as (at, first_lines):
            # The proxy of the kubeconfig.
            async with HttpClient(target._replace(proxy=f"http://127.0.0.1:{at}")) as client:
                assert await client.read("/") == {"name": "allotment-admin"}
            # The proxy of the environment, and an exception from it.
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{at}")
            async with HttpClient(target) as client:
                assert await client.read("/") == {"name": "allotment-admin"}
            assert first_lines == [f"CONNECT cluster.example.com:{port} HTTP/1.1"] * 2
            local = target._replace(server=f"https://127.0.0.1:{port}")
            async with HttpClient(local) as client:
                assert await client.read("/") == {"name": "allotment-admin"}
            assert len(first_lines) == 2
            # A name that is not in the server's certificate.
            async with HttpClient(target._replace(server_name="other")) as client:
                with pytest.raises(Unreachable, match="certificate is not valid for 'other'"):
                    await client.read("/")
        async with HttpClient(target) as client:
            with pytest.raises(Unreachable, match=rf"the proxy 127\.0\.0\.1:{at} does not respond"):
                await client.read("/")
        async with AsyncExitStack() as stack:
            at, _ = await stack.enter_async_context(proxy(refuse=b"HTTP/1.1 407 Authenticate yourself\r\n\r\n"))
            way = target._replace(proxy=f"http://127.0.0.1:{at}")
            client = await stack.enter_async_context(HttpClient(way))
            with pytest.raises(Unreachable, match="the proxy responded with 407: Authenticate yourself"):
                await client.read("/")
        await serving.stop(1)

    asyncio.run(scenario())


def test_an_unsupported_proxy_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://jane:secret@127.0.0.1:1080")

    async def scenario() -> None:
        async with HttpClient(ClusterTarget("https://cluster.example.com")) as client:
            with pytest.raises(Unreachable, match=r"expected an http:// or https:// proxy, found socks5://") as raised:
                await client.get(NODES, "n1")
            assert "secret" not in str(raised.value)

    asyncio.run(scenario())


def test_a_proxy_forwards_plain_http() -> None:
    async def scenario() -> None:
        serving = Server(Scripted(answer({"kind": "Node"})))
        port = await serving.listen("127.0.0.1", 0)
        async with proxy() as (at, first_lines):
            target = ClusterTarget(f"http://cluster.example.com:{port}", proxy=f"http://127.0.0.1:{at}")
            async with HttpClient(target) as client:
                assert await client.get(NODES, "n1") == {"kind": "Node"}
            assert first_lines == [f"GET http://cluster.example.com:{port}/api/v1/nodes/n1 HTTP/1.1"]
        await serving.stop(1)

    asyncio.run(scenario())


async def _send_while_another_leads(client: HttpClient, verb: str) -> None:
    """Reads are answered; writes are not sent."""
    send, _ = REQUESTS[verb]
    if verb in ("get", "list"):
        await send(client)
    else:
        with pytest.raises(Unreachable, match="not sent: another leads"):
            await send(client)


@pytest.mark.parametrize("verb", REQUESTS)
def test_blocked_writes_are_not_sent_on_retries(verb: str) -> None:
    reasons = chain(["", ""], repeat("another leads"))  # one write is allowed
    server = Scripted(refusal(429, "TooManyRequests", ("Retry-After", "0")), answer(ANSWER))

    async def scenario() -> None:
        serving = Server(server)
        port = await serving.listen("127.0.0.1", 0)
        target = ClusterTarget(f"http://127.0.0.1:{port}")
        async with HttpClient(target, retry_seconds=0.2, write_block=lambda: next(reasons)) as client:
            await _send_while_another_leads(client, verb)
        await serving.stop(1)

    asyncio.run(scenario())
    assert len(server.requests) == (2 if verb in ("get", "list") else 1)


@pytest.mark.parametrize("verb", REQUESTS)
def test_writes_blocked_while_connecting_are_not_sent(verb: str, made: certificates.Certificates) -> None:
    reason = [""]
    server = Scripted(answer(ANSWER))

    def greeted(*_: object) -> None:
        """The server answers the ClientHello late."""
        reason[0] = "another leads"

    async def scenario() -> None:
        shown = server_context(*made.server, made.authority)
        shown.sni_callback = greeted
        serving = Server(server)
        port = await serving.listen("127.0.0.1", 0, shown)
        target = ClusterTarget(
            f"https://127.0.0.1:{port}", authority=made.authority.read_bytes(), server_name="kubernetes", token="t"
        )
        async with HttpClient(target, retry_seconds=0, write_block=lambda: reason[0]) as client:
            await _send_while_another_leads(client, verb)
        await serving.stop(1)

    asyncio.run(scenario())
    assert len(server.requests) == (1 if verb in ("get", "list") else 0)


@pytest.mark.parametrize("verb", REQUESTS)
def test_temporarily_blocked_writes_are_sent_once(verb: str) -> None:
    send, _ = REQUESTS[verb]
    server = Scripted(answer(ANSWER))
    reasons = chain(["not the leader"], repeat(""))
    run_with_client(server, send, retry_seconds=5, write_block=lambda: next(reasons))
    assert len(server.requests) == 1
