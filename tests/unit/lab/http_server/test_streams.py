from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from allotment.apiserver.http_messages import AnyResponse, Request, Response, Streaming
from allotment.lab.http_server.streaming import pump
from tests.polling import until
from tests.unit.cluster import idle
from tests.unit.lab.http_server.loopback import HTML, Run, served

WATCH = b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n"


class Written:
    """A sink that records each write."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    async def drained(self) -> None:
        return


def test_available_chunks_are_sent_together() -> None:
    async def bursts() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"b"
        await asyncio.sleep(0.01)
        yield b"c"
        yield b""
        yield b"d"

    sink = Written()
    idle.run(pump(bursts(), b"HEAD", False, sink))
    assert sink.writes == [b"HEADab", b"cd"]


def test_the_head_does_not_wait_for_the_first_chunk() -> None:
    async def late() -> AsyncIterator[bytes]:
        await asyncio.sleep(0.01)
        yield b"a"

    sink = Written()
    idle.run(pump(late(), b"HEAD", True, sink))
    assert sink.writes == [b"HEAD", b"1\r\na\r\n"]


def test_an_iterator_need_not_be_a_generator() -> None:
    class Counting:
        left = 3

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self

        async def __anext__(self) -> bytes:
            if not self.left:
                raise StopAsyncIteration
            self.left -= 1
            if self.left == 1:
                await asyncio.sleep(0.01)
            return str(self.left).encode()

    sink = Written()
    idle.run(pump(Counting(), b"", False, sink))
    assert sink.writes == [b"2", b"10"]


def test_a_stream_is_chunked_and_keeps_the_connection(run: Run) -> None:
    async def three() -> AsyncIterator[bytes]:
        for piece in (b"one\n", b"two\n", b"three\n"):
            yield piece
            await asyncio.sleep(0.01)

    async def stream(request: Request) -> AnyResponse:
        return Streaming(200, HTML, three())

    async def scenario() -> None:
        async with served(stream) as world:
            client = await world.client()
            client.send(WATCH * 2)
            for _ in range(2):
                code, headers = await client.head()
                assert (code, headers["transfer-encoding"]) == (200, "chunked")
                assert [await client.chunk() for _ in range(4)] == [b"one\n", b"two\n", b"three\n", b""]

    run(scenario())


def test_http_1_0_streams_are_not_chunked(run: Run) -> None:
    async def two() -> AsyncIterator[bytes]:
        yield b"one\n"
        yield b"two\n"

    async def stream(request: Request) -> AnyResponse:
        return Streaming(200, HTML, two())

    async def scenario() -> None:
        async with served(stream) as world:
            client = await world.client()
            client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            _, headers = await client.head()
            assert headers["connection"] == "close"
            assert await client.rest() == b"one\ntwo\n"
            other = await world.client()
            other.send(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n" + WATCH)
            assert (await other.head())[0] == 200
            assert (await other.answer())[2] == b"one\ntwo\n"

    run(scenario())


def test_a_stream_is_closed_on_disconnect_or_half_close(run: Run) -> None:
    closed: list[str] = []

    async def endless(name: str) -> AsyncIterator[bytes]:
        try:
            yield b"first\n"
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            closed.append(name)

    async def stream(request: Request) -> AnyResponse:
        return Streaming(200, HTML, endless(request.path))

    async def scenario() -> None:
        async with served(stream) as world:
            gone, half = await world.client(), await world.client()
            gone.send(b"GET /gone HTTP/1.1\r\nHost: x\r\n\r\n")
            half.send(b"GET /half HTTP/1.1\r\nHost: x\r\n\r\n")
            for client in (gone, half):
                await client.head()
                assert await client.chunk() == b"first\n"
            gone.close()
            half.writer.write_eof()
            await until(lambda: sorted(closed) == ["/gone", "/half"])
            assert await half.rest() == b""

    run(scenario())


def test_a_failed_stream_has_no_last_chunk(run: Run, expected_warnings: list[str]) -> None:
    expected_warnings.append("the response to /watch was interrupted")

    async def broken() -> AsyncIterator[bytes]:
        yield b"first\n"
        raise ZeroDivisionError

    async def stream(request: Request) -> AnyResponse:
        return Streaming(200, HTML, broken())

    async def scenario() -> None:
        async with served(stream) as world:
            client = await world.client()
            client.send(WATCH)
            assert b"0\r\n\r\n" not in await client.rest()

    run(scenario())


def test_a_stream_whose_source_ends_early_has_no_last_chunk(run: Run) -> None:
    async def interrupted() -> AsyncIterator[bytes]:
        yield b"first\n"
        raise ConnectionError("unexpected EOF")

    async def stream(request: Request) -> AnyResponse:
        return Streaming(200, HTML, interrupted())

    async def scenario() -> None:
        async with served(stream) as world:
            client = await world.client()
            client.send(WATCH)
            assert b"0\r\n\r\n" not in await client.rest()

    run(scenario())


def test_a_stop_ends_streams_and_finishes_responses(run: Run) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b"first\n"
        await asyncio.Event().wait()

    async def scenario() -> None:
        requested, release = asyncio.Event(), asyncio.Event()

        async def by_path(request: Request) -> AnyResponse:
            if request.path == "/watch":
                return Streaming(200, HTML, endless())
            requested.set()
            await release.wait()
            return Response(200, HTML, b"done")

        async with served(by_path) as world:
            watching, requesting, silent = [await world.client() for _ in range(3)]
            watching.send(WATCH)
            await watching.head()
            assert await watching.chunk() == b"first\n"
            requesting.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
            await until(lambda: world.server.connections == 3)
            await requested.wait()
            stopping = asyncio.create_task(world.server.stop(30))
            assert await watching.chunk() == b""
            assert await silent.rest() == b""
            release.set()
            code, headers, body = await requesting.answer()
            assert (code, headers["connection"], body) == (200, "close", b"done")
            await stopping
            assert world.server.connections == 0

    run(scenario())


def test_a_stop_aborts_responses_that_do_not_end(run: Run) -> None:
    async def scenario() -> None:
        requested = asyncio.Event()

        async def never(request: Request) -> AnyResponse:
            requested.set()
            await asyncio.Event().wait()
            raise AssertionError

        async with served(never) as world:
            client = await world.client()
            client.send(WATCH)
            await requested.wait()
            await world.server.stop(0.1)
            assert await client.rest() == b""
            assert world.server.connections == 0

    run(scenario())
