from __future__ import annotations

import asyncio
import gc
import json
import resource
import socket
import struct
import tracemalloc
from collections.abc import AsyncIterator
from typing import cast

import pytest

from allotment.apiserver.http_messages import AnyResponse, Request, Response, Streaming
from allotment.lab.http_server import Limits, Server
from tests.polling import until
from tests.unit.lab.http_server.loopback import HTML, Run, echo, served

GET = b"GET /ok HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS client on the plain HTTP port
        b"GET /\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
        b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /a%2 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nBad Name: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_invalid_http_is_a_bad_request(run: Run, data: bytes) -> None:
    async def scenario() -> None:
        async with served() as world:
            client = await world.client()
            client.send(GET + data + GET)
            assert (await client.answer())[2] == b"GET /ok  0"
            code, headers, body = await client.answer()
            assert (code, headers["connection"]) == (400, "close")
            status = json.loads(body)
            assert (status["kind"], status["reason"], status["code"]) == ("Status", "BadRequest", 400)
            assert await client.rest() == b""

    run(scenario())


@pytest.mark.parametrize("line", [b"GET /", b"GET / HTTP/2.0"])
def test_an_unsupported_http_version_is_reported(run: Run, line: bytes) -> None:
    async def scenario() -> None:
        async with served() as world:
            client = await world.client()
            client.send(line + b"\r\nHost: x\r\n\r\n")
            code, _, body = await client.answer()
            assert code == 505
            assert b"use HTTP/1.1" in body

    run(scenario())


def test_a_body_over_the_limit_is_rejected_before_it_is_sent(run: Run) -> None:
    async def scenario() -> None:
        async with served() as world:
            client = await world.client()
            client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3145729\r\n\r\n")
            code, _, body = await client.answer()
            assert code == 413
            assert json.loads(body) == {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": "Request entity too large: limit is 3145728",
                "reason": "RequestEntityTooLarge",
                "code": 413,
            }

    run(scenario())


def test_a_client_that_sends_a_too_large_body_can_read_the_error(run: Run) -> None:
    async def scenario() -> None:
        async with served() as world:
            client = await world.client()
            client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(64):
                client.send(b"10000\r\n" + bytes(65536) + b"\r\n")
                await asyncio.sleep(0)
            assert (await client.answer())[0] == 413
            assert world.server.bodies.left == Limits().all_body_bytes
            other = await world.client()
            other.send(GET)
            assert (await other.answer())[0] == 200

    run(scenario())


@pytest.mark.parametrize(
    "data",
    [
        b"GET /" + b"a" * 2000,
        b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 2000,
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 400,
    ],
)
def test_an_endless_head_is_rejected(run: Run, data: bytes) -> None:
    async def scenario() -> None:
        async with served(limits=Limits(head_bytes=1000)) as world:
            client = await world.client()
            for start in range(0, len(data), 100):
                if client.writer.transport.is_closing():
                    break  # the server had stopped reading
                client.send(data[start : start + 100])
                await asyncio.sleep(0.001)
            code, _, body = await client.answer()
            assert code == 431
            assert b"limit is 1000" in body

    run(scenario())


def test_the_total_size_of_bodies_is_limited_and_released(run: Run) -> None:
    async def scenario() -> None:
        async with served(limits=Limits(all_body_bytes=1000)) as world:
            first = await world.client()
            first.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n" + bytes(800))
            await until(lambda: world.server.bodies.left == 200)
            second = await world.client()
            second.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 300\r\n\r\n" + bytes(300))
            code, headers, _ = await second.answer()
            assert (code, headers["retry-after"]) == (429, "1")
            first.send(bytes(100))
            assert (await first.answer())[2] == b"POST /  900"
            third = await world.client()
            third.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n" + bytes(500))
            await until(lambda: world.server.bodies.left == 500)
            third.close()
            await until(lambda: world.server.bodies.left == 1000)

    run(scenario())


def test_one_client_cannot_use_all_memory_for_bodies(run: Run) -> None:
    def unfinished(user: str, size: int) -> bytes:
        return b"POST / HTTP/1.1\r\nHost: x\r\nUser: %b\r\nContent-Length: %d\r\n\r\n" % (user.encode(), size)

    async def scenario() -> None:
        async with served(limits=Limits(all_body_bytes=1_000_000, client_body_bytes=250_000)) as world:
            world.server.bodies.identify = lambda request: request.headers["user"]
            hostile = [await world.client() for _ in range(5)]
            for client in hostile:
                client.send(unfinished("anonymous", 100_001) + bytes(100_000))
            await until(lambda: world.server.bodies.left == 800_000)  # the others are refused
            for client in hostile[2:]:
                assert (await client.answer())[0] == 429
            other = await world.client()
            other.send(unfinished("alice", 200_000) + bytes(200_000))
            assert (await other.answer())[2] == b"POST /  200000"
            for client in hostile[:2]:
                client.close()
            await until(lambda: world.server.bodies.left == 1_000_000)
            again = await world.client()
            again.send(unfinished("anonymous", 200_000) + bytes(200_000))
            assert (await again.answer())[2] == b"POST /  200000"

    run(scenario())


@pytest.mark.parametrize("sent", [1_000_000, 999_999])
def test_bodies_are_released_with_their_request(run: Run, sent: int) -> None:
    """With complete requests on connections that stay open, and with incomplete ones on connections that end."""

    async def scenario() -> None:
        async with served() as world:
            clients = [await world.client() for _ in range(20)]
            gc.disable()  # as in a lab, which collects cycles seldom
            tracemalloc.start()
            try:
                for client in clients:
                    client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + bytes(sent))
                    if sent == 1_000_000:
                        assert (await client.answer())[0] == 200
                    else:
                        client.writer.write_eof()
                        assert await client.rest() == b""
                await until(lambda: tracemalloc.get_traced_memory()[0] < 5_000_000)
            finally:
                tracemalloc.stop()
                gc.enable()

    run(scenario())


@pytest.mark.parametrize(
    ("data", "stage", "limits"),
    [
        (b"GET / HT", "head", Limits(head_seconds=0.3)),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab", "body", Limits(body_seconds=0.3)),
    ],
)
def test_a_slow_client_gets_408_and_is_disconnected(run: Run, data: bytes, stage: str, limits: Limits) -> None:
    async def scenario() -> None:
        async with served(limits=limits) as world:
            client = await world.client()
            client.send(data)
            code, _, body = await client.answer()
            assert (code, json.loads(body)["message"]) == (408, f"the request's {stage} was not received in time")
            assert await client.rest() == b""

    run(scenario())


def test_single_bytes_do_not_extend_the_timeout(run: Run) -> None:
    async def scenario() -> None:
        async with served(limits=Limits(head_seconds=0.5)) as world:
            client = await world.client()

            async def drip() -> None:
                client.send(b"GET / HTTP/1.1\r\n")
                while True:
                    client.send(b"A: b\r\n")
                    await asyncio.sleep(0.05)

            dripping = asyncio.create_task(drip())
            code, _ = await client.head()
            assert code == 408
            dripping.cancel()

    run(scenario())


def test_an_idle_client_is_disconnected(run: Run) -> None:
    async def scenario() -> None:
        async with served(limits=Limits(idle_seconds=0.3)) as world:
            client = await world.client()
            assert await client.rest() == b""
            used = await world.client()
            used.send(GET)
            assert (await used.answer())[0] == 200
            assert await used.rest() == b""
            await until(lambda: world.server.connections == 0)

    run(scenario())


def test_a_half_closed_client_gets_its_response(run: Run) -> None:
    async def slow(request: Request) -> AnyResponse:
        await asyncio.sleep(0.05)
        return await echo(request)

    async def scenario() -> None:
        async with served(slow) as world:
            client = await world.client()
            client.send(GET + GET)
            client.writer.write_eof()
            assert (await client.answer())[2] == b"GET /ok  0"
            assert (await client.answer())[2] == b"GET /ok  0"
            assert await client.rest() == b""

    run(scenario())


def test_a_client_that_disconnects_during_a_request_is_forgotten(run: Run) -> None:
    async def scenario() -> None:
        async with served() as world:
            client = await world.client()
            client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab")
            client.writer.write_eof()
            assert await client.rest() == b""
            await until(lambda: world.server.connections == 0)
            assert world.server.bodies.left == Limits().all_body_bytes

    run(scenario())


def test_a_connection_reset_does_not_affect_others(run: Run) -> None:
    async def slow(request: Request) -> AnyResponse:
        await asyncio.sleep(0.1)
        return await echo(request)

    async def scenario() -> None:
        async with served(slow) as world:
            other = await world.client()
            other.send(GET)
            for _ in range(5):
                plain = socket.create_connection(("127.0.0.1", world.port))
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                plain.sendall(GET + b"POST / HTTP/1.1\r\nHost")
                await asyncio.sleep(0.01)
                plain.close()
            assert (await other.answer())[0] == 200
            await until(lambda: world.server.connections == 1)

    run(scenario())


def test_an_unread_stream_is_closed_and_its_buffer_is_limited(run: Run) -> None:
    pulled = 0
    closed = asyncio.Event()

    async def flood() -> AsyncIterator[bytes]:
        nonlocal pulled
        try:
            while True:
                pulled += 1
                yield bytes(64 * 1024)
        finally:
            closed.set()

    async def stream(request: Request) -> AnyResponse:
        return Streaming(200, HTML, flood()) if request.path == "/watch" else Response(200, HTML, b"ok")

    async def scenario() -> None:
        async with served(stream, limits=Limits(stalled_seconds=0.5)) as world:
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(("127.0.0.1", world.port))
            sock.sendall(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n")
            other = await world.client()
            other.send(GET)
            assert (await other.answer())[2] == b"ok"
            await closed.wait()
            assert pulled < 200  # only as much as the buffers of the kernel
            await until(lambda: world.server.connections == 1)
            sock.close()

    run(scenario())


def test_unread_responses_pause_reading_of_requests(run: Run) -> None:
    requests = 0

    async def large(request: Request) -> AnyResponse:
        nonlocal requests
        requests += 1
        return Response(200, HTML, bytes(500_000))

    async def scenario() -> None:
        async with served(large, limits=Limits(stalled_seconds=0.5)) as world:
            client = await world.client()
            cast("asyncio.Transport", client.writer.transport).pause_reading()
            client.send(GET * 20_000)
            await until(lambda: world.server.connections == 0)
            assert requests < 100

    run(scenario())


def test_an_excess_connection_replaces_an_idle_one_or_is_rejected(run: Run) -> None:
    release = asyncio.Event()
    requests = 0

    async def wait(request: Request) -> AnyResponse:
        nonlocal requests
        requests += 1
        await release.wait()
        return Response(200, HTML, b"done")

    async def scenario() -> None:
        async with served(wait, limits=Limits(connections=2)) as world:
            idle, busy = await world.client(), await world.client()
            busy.send(GET)
            await until(lambda: requests == 1)
            third = await world.client()
            third.send(GET)
            assert await idle.rest() == b""
            await until(lambda: requests == 2)
            fourth = await world.client()
            code, headers, _ = await fourth.answer()
            assert (code, headers["connection"]) == (429, "close")
            release.set()
            assert (await busy.answer())[2] == b"done"
            assert (await third.answer())[2] == b"done"

    run(scenario())


def test_the_connection_limit_depends_on_file_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    for soft, most in [(1024, 768), (100_000, 2000), (resource.RLIM_INFINITY, 2000), (64, 8)]:
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert Server(echo).limits.connections == most
