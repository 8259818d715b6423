"""Requests that fail, and which of them are made again; proxies; servers that go and come back."""

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

from allotment.apiserver.http_messages import Answer, Request, Response
from allotment.cluster.cache import Cache
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.cluster.resources import NODES
from allotment.lab import certificates
from allotment.lab.http_server import Server, server_context
from allotment.model.trees import Tree
from tests.unit.cluster.remote.test_http_client import Scripted, answer, refusal, talk
from tests.waiting import until

NODE = {"metadata": {"name": "n1"}}
VERSIONED = {"metadata": {"name": "n1", "resourceVersion": "7"}}
PINNED = {"metadata": {"uid": "u"}}
#: An answer to all that can be asked.
WHAT: Tree = {"kind": "Node", "items": []}

Ask = Callable[[HttpClient], Awaitable[Any]]

#: What can be asked, and whether to ask it twice is to ask it once.
ASKED: dict[str, tuple[Ask, bool]] = {
    "get": (lambda c: c.get(NODES, "n1"), True),
    "list": (lambda c: c.list(NODES), True),
    "update": (lambda c: c.update(NODES, VERSIONED), True),
    "update whatever is there": (lambda c: c.update(NODES, NODE), False),
    "merge patch of the very object": (lambda c: c.patch(NODES, "n1", PINNED), True),
    "merge patch of any": (lambda c: c.patch(NODES, "n1", {"spec": {}}), False),
    "json patch": (lambda c: c.patch(NODES, "n1", [{"op": "add", "path": "/a/-", "value": 1}], kind="json"), False),
    "apply": (lambda c: c.patch(NODES, "n1", NODE, kind="apply"), True),
    "delete the very object": (lambda c: c.delete(NODES, "n1", uid="u"), True),
    "delete any": (lambda c: c.delete(NODES, "n1"), False),
    "create": (lambda c: c.create(NODES, NODE), False),
    "create as a trial": (lambda c: c.create(NODES, NODE, dry_run=True), True),
}


@pytest.mark.parametrize("code", [502, 503, 504])
@pytest.mark.parametrize("asked", ASKED)
def test_what_a_proxy_lost_is_asked_again_where_that_is_safe(asked: str, code: int) -> None:
    ask, repeatable = ASKED[asked]
    server = Scripted(Response(code, (), b"no backend"), Response(code, (), b""), answer(WHAT))

    async def story(client: HttpClient) -> None:
        if repeatable:
            await ask(client)
        else:
            with pytest.raises(StatusError) as raised:
                await ask(client)
            assert raised.value.code == code

    talk(server, story, patience=5)
    assert len(server.asked) == (3 if repeatable else 1)


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("code", [429, 500, 503])
def test_whoever_is_told_when_to_come_back_does_so_whatever_was_asked(asked: str, code: int) -> None:
    ask, _ = ASKED[asked]
    server = Scripted(refusal(code, "later", ("Retry-After", "0")), answer(WHAT))
    talk(server, ask, patience=0)
    assert len(server.asked) == 2


def test_who_asks_when_it_is_closed_opens_nothing() -> None:
    async def story() -> None:
        client = HttpClient(ClusterTarget("http://127.0.0.1:9"))
        await client.close()
        with pytest.raises(Unreachable, match="not sent: the client was closed"):
            await client.get(NODES, "n1")

    asyncio.run(story())


def test_patience_ends() -> None:
    async def story() -> None:
        async def lost(request: Request) -> Answer:
            return Response(503, (), b"")

        serving = Server(lost)
        port = await serving.listen("127.0.0.1", 0)
        async with HttpClient(ClusterTarget(f"http://127.0.0.1:{port}"), retry_seconds=0.6) as client:
            began = time.monotonic()
            with pytest.raises(StatusError) as raised:
                await client.get(NODES, "n1")
            assert raised.value.code == 503
            assert 0.3 < time.monotonic() - began < 30
        await serving.stop(1)

    asyncio.run(story())


@pytest.mark.parametrize(("most", "times"), [(1.5, 2), (0, 1)])
def test_a_server_that_says_later_and_later_is_not_asked_for_ever(most: float, times: int) -> None:
    server = Scripted(*[refusal(429, "TooManyRequests", ("Retry-After", "1"))] * 3)

    async def story(client: HttpClient) -> None:
        with pytest.raises(StatusError):
            await client.get(NODES, "n1")

    talk(server, story, later=most)
    assert len(server.asked) == times


@asynccontextmanager
async def breaking(*breaks: bool) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that, for each request in turn, breaks off after reading it, or answers."""
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


def test_a_connection_that_breaks_off_is_made_again_where_that_is_safe() -> None:
    async def story() -> None:
        async with AsyncExitStack() as stack:
            port, heads = await stack.enter_async_context(breaking(False, True, True, False, True))
            client = await stack.enter_async_context(HttpClient(ClusterTarget(f"http://127.0.0.1:{port}")))
            await client.get(NODES, "n1")
            await client.patch(NODES, "n1", PINNED)
            with pytest.raises(Unreachable, match=r"POST http://127\.0\.0\.1:\d+/api/v1/nodes"):
                await client.create(NODES, NODE)
        assert heads == [b"GET", *[b"PATCH"] * 3, b"POST"]

    asyncio.run(story())


def test_a_server_that_is_restarted_is_waited_for_and_one_that_never_was_is_not() -> None:
    async def story() -> None:
        async def node(request: Request) -> Answer:
            return answer({"kind": "Node", "metadata": {"name": request.method}})

        kept = socket.socket()  # so that nobody else is given the port meanwhile
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        port = kept.getsockname()[1]
        first = Server(node)
        await first.listen("127.0.0.1", port)
        async with HttpClient(ClusterTarget(f"http://127.0.0.1:{port}"), retry_seconds=50) as client:
            await client.get(NODES, "n1")
            await first.stop(1)
            # Nothing can have reached it: even what must not be done twice waits.
            asking = asyncio.create_task(client.create(NODES, NODE))
            await asyncio.sleep(0.3)
            assert not asking.done()
            second = Server(node)
            await second.listen("127.0.0.1", port)
            assert (await asking)["metadata"]["name"] == "POST"
            await second.stop(1)
        async with HttpClient(ClusterTarget(f"http://127.0.0.1:{port}"), retry_seconds=3600) as client:
            with pytest.raises(Unreachable):
                await client.get(NODES, "n1")
        kept.close()

    asyncio.run(story())


def test_a_server_that_shakes_no_hands_for_a_while_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """It has just started, and its machine has much to do: nothing can have reached it either."""
    monkeypatch.setattr("allotment.cluster.remote.connection._CONNECT_SECONDS", 1.0)
    made = certificates.ensure(tmp_path, datetime.now(UTC), [])

    async def story() -> None:
        given_up = asyncio.Event()

        async def node(request: Request) -> Answer:
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

        kept = socket.socket()  # so that nobody else is given the port meanwhile
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
                asking = asyncio.create_task(client.create(NODES, NODE))
                await given_up.wait()
            await second.listen("127.0.0.1", port, server_context(*made.server, made.authority))
            assert (await asking)["metadata"]["name"] == "POST"
            await second.stop(1)
        kept.close()

    asyncio.run(story())


def test_a_server_that_says_nothing_is_given_up() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
        finally:
            writer.close()

    async def story() -> None:
        listener = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        async with HttpClient(ClusterTarget(f"http://127.0.0.1:{port}"), timeout_seconds=0.2) as client:
            with pytest.raises(Unreachable, match="no answer in time"):
                await client.get(NODES, "n1")
        listener.close()
        await listener.wait_closed()

    asyncio.run(story())


def test_a_cache_goes_on_where_its_server_stopped() -> None:
    """A watch that breaks continues at its last revision, a bookmark's included; the server's end is its restart."""

    async def story() -> None:
        asked: list[str] = []

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

        async def serve(request: Request) -> Answer:
            words = dict(pair.partition("=")[::2] for pair in request.query.split("&"))
            if "fieldSelector" in words:
                return answer({"kind": "NodeList", "metadata": {"resourceVersion": "29"}, "items": []})
            if "watch" not in words:
                asked.append("list")
                revision = "10" if asked.count("list") == 1 else "30"
                names = ["a"] if asked.count("list") == 1 else ["c"]
                items = [of(name, int(revision)) for name in names]
                return answer({"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": revision},
                               "items": items})  # fmt: skip
            asked.append(words["resourceVersion"])
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
        assert asked[:7] == ["list", "10", "11", "20", "20", "21", "list"]

    asyncio.run(story())


@asynccontextmanager
async def proxy(tls: ssl.SSLContext | None = None, refuse: bytes = b"") -> AsyncIterator[tuple[int, list[str]]]:
    """A proxy; what it was asked for, first lines only."""
    asked: list[str] = []
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
        asked.append(first.decode())
        method, where, _ = first.decode().split(" ")
        if refuse:
            writer.write(refuse)
            writer.close()
            return
        if method == "CONNECT":
            # Whatever name it is asked for, the server is here.
            there, back = await asyncio.open_connection("127.0.0.1", int(where.rpartition(":")[2]))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            host, _, path = where.removeprefix("http://").partition("/")
            there, back = await asyncio.open_connection("127.0.0.1", int(host.rpartition(":")[2]))
            back.write(f"{method} /{path} HTTP/1.1\r\n".encode() + rest)
        for pair in ((reader, back), (there, writer)):
            task = asyncio.create_task(pipe(*pair))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield listener.sockets[0].getsockname()[1], asked
    finally:
        listener.close()
        for task in tuple(tasks):
            task.cancel()
        await listener.wait_closed()


@pytest.fixture
def made(tmp_path: Path) -> certificates.Certificates:
    return certificates.ensure(tmp_path, datetime.now(UTC), ["kubernetes"])


def test_through_a_proxy_with_tls_from_end_to_end(
    made: certificates.Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async def who(request: Request) -> Answer:
            return answer({"name": request.peer.name if request.peer else ""})

        serving = Server(who)
        port = await serving.listen("127.0.0.1", 0, server_context(*made.server, made.authority))
        target = ClusterTarget(
            f"https://cluster.example.com:{port}", authority=made.authority.read_bytes(), server_name="kubernetes",
            certificate=made.admin.certificate.read_bytes(), key=made.admin.key.read_bytes(),
        )  # fmt: skip
        async with proxy() as (at, asked):
            # As the kubeconfig says it.
            async with HttpClient(target._replace(proxy=f"http://127.0.0.1:{at}")) as client:
                assert await client.read("/") == {"name": "allotment-admin"}
            # As the environment says it, and as it says otherwise.
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{at}")
            async with HttpClient(target) as client:
                assert await client.read("/") == {"name": "allotment-admin"}
            assert asked == [f"CONNECT cluster.example.com:{port} HTTP/1.1"] * 2
            local = target._replace(server=f"https://127.0.0.1:{port}")
            async with HttpClient(local) as client:
                assert await client.read("/") == {"name": "allotment-admin"}
            assert len(asked) == 2
            # A name that the server's certificate has not.
            async with HttpClient(target._replace(server_name="other")) as client:
                with pytest.raises(Unreachable, match="certificate is not valid for 'other'"):
                    await client.read("/")
        async with HttpClient(target) as client:
            with pytest.raises(Unreachable, match=rf"the proxy 127\.0\.0\.1:{at} does not answer"):
                await client.read("/")
        async with AsyncExitStack() as stack:
            at, _ = await stack.enter_async_context(proxy(refuse=b"HTTP/1.1 407 Authenticate yourself\r\n\r\n"))
            way = target._replace(proxy=f"http://127.0.0.1:{at}")
            client = await stack.enter_async_context(HttpClient(way))
            with pytest.raises(Unreachable, match="the proxy answered 407: Authenticate yourself"):
                await client.read("/")
        await serving.stop(1)

    asyncio.run(story())


def test_a_proxy_that_is_not_spoken_to_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://jane:secret@127.0.0.1:1080")

    async def story() -> None:
        async with HttpClient(ClusterTarget("https://cluster.example.com")) as client:
            with pytest.raises(Unreachable, match=r"expected an http:// or https:// proxy, found socks5://") as raised:
                await client.get(NODES, "n1")
            assert "secret" not in str(raised.value)

    asyncio.run(story())


def test_through_a_proxy_without_tls() -> None:
    async def story() -> None:
        serving = Server(Scripted(answer({"kind": "Node"})))
        port = await serving.listen("127.0.0.1", 0)
        async with proxy() as (at, asked):
            target = ClusterTarget(f"http://cluster.example.com:{port}", proxy=f"http://127.0.0.1:{at}")
            async with HttpClient(target) as client:
                assert await client.get(NODES, "n1") == {"kind": "Node"}
            assert asked == [f"GET http://cluster.example.com:{port}/api/v1/nodes/n1 HTTP/1.1"]
        await serving.stop(1)

    asyncio.run(story())


async def _asked_while_another_leads(client: HttpClient, asked: str) -> None:
    """What only reads is answered; what writes is not sent."""
    ask, _ = ASKED[asked]
    if asked in ("get", "list"):
        await ask(client)
    else:
        with pytest.raises(Unreachable, match="not sent: another leads"):
            await ask(client)


@pytest.mark.parametrize("asked", ASKED)
def test_what_is_barred_is_not_sent_however_often_it_was_tried(asked: str) -> None:
    bars = chain(["", ""], repeat("another leads"))  # it may be written once
    server = Scripted(refusal(429, "TooManyRequests", ("Retry-After", "0")), answer(WHAT))

    async def story() -> None:
        serving = Server(server)
        port = await serving.listen("127.0.0.1", 0)
        target = ClusterTarget(f"http://127.0.0.1:{port}")
        async with HttpClient(target, retry_seconds=0.2, write_block=lambda: next(bars)) as client:
            await _asked_while_another_leads(client, asked)
        await serving.stop(1)

    asyncio.run(story())
    assert len(server.asked) == (2 if asked in ("get", "list") else 1)


@pytest.mark.parametrize("asked", ASKED)
def test_what_is_barred_by_the_time_that_its_connection_is_there_is_not_sent(
    asked: str, made: certificates.Certificates
) -> None:
    bar = [""]
    server = Scripted(answer(WHAT))

    def greeted(*_: object) -> None:
        """The client has said hello; long afterwards it hears from the server."""
        bar[0] = "another leads"

    async def story() -> None:
        shown = server_context(*made.server, made.authority)
        shown.sni_callback = greeted
        serving = Server(server)
        port = await serving.listen("127.0.0.1", 0, shown)
        target = ClusterTarget(
            f"https://127.0.0.1:{port}", authority=made.authority.read_bytes(), server_name="kubernetes", token="t"
        )
        async with HttpClient(target, retry_seconds=0, write_block=lambda: bar[0]) as client:
            await _asked_while_another_leads(client, asked)
        await serving.stop(1)

    asyncio.run(story())
    assert len(server.asked) == (1 if asked in ("get", "list") else 0)


@pytest.mark.parametrize("asked", ASKED)
def test_what_is_barred_for_a_moment_is_sent_once_afterwards(asked: str) -> None:
    ask, _ = ASKED[asked]
    server = Scripted(answer(WHAT))
    bars = chain(["it is late"], repeat(""))
    talk(server, ask, patience=5, barred=lambda: next(bars))
    assert len(server.asked) == 1
