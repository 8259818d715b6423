from __future__ import annotations

import asyncio
import os
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.http_messages import AnyResponse, Request, Socket, Upgrade
from allotment.lab.http_server.websocket import WebSocket, frame, unmasked
from tests.polling import until
from tests.unit.lab.http_server.loopback import Client, Run, served

PROTOCOLS = ("v5.channel.k8s.io", "SPDY/3.1+portforward.k8s.io", "")


async def talk(socket: Socket) -> None:
    while (message := await socket.receive()) is not None:
        if message == b"end":
            return
        await socket.send(socket.protocol.encode() + b":" + message)


async def upgrade(request: Request) -> AnyResponse:
    return Upgrade(PROTOCOLS, talk)


def upgrade_request(*lines: str) -> bytes:
    fixed = ("GET /exec HTTP/1.1", "Host: x", "Connection: keep-alive, Upgrade", "Upgrade: websocket",
             "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: Gzdi90mAEOAMhYE0sBU+XQ==")  # fmt: skip
    return "".join(f"{line}\r\n" for line in (*fixed, *lines, "")).encode()


def masked(opcode: int, payload: bytes, *, final: bool = True, mask: bytes = b"\x9d\x00\x41\xff") -> bytes:
    plain = frame(opcode, payload)
    head = plain[: len(plain) - len(payload)]
    return bytes((head[0] & (0xFF if final else 0x7F), head[1] | 0x80)) + head[2:] + mask + unmasked(payload, mask)


async def received(client: Client) -> tuple[int, bytes]:
    first, length = await client.reader.readexactly(2)
    if length == 126:
        length = int.from_bytes(await client.reader.readexactly(2))
    elif length == 127:
        length = int.from_bytes(await client.reader.readexactly(8))
    return first & 0x0F, await client.reader.readexactly(length)


def test_the_handshake_matches_the_recorded_one(run: Run) -> None:
    async def scenario() -> None:
        async with served(upgrade) as world:
            client = await world.client()
            client.send(upgrade_request("Sec-WebSocket-Protocol: v9, v5.channel.k8s.io") + masked(2, b"hi"))
            code, headers = await client.head()
            assert code == 101
            assert headers == {
                "upgrade": "websocket",
                "connection": "Upgrade",
                "sec-websocket-accept": "IeQNq/Pk4UDN/82XIduzY0iMKnA=",
                "sec-websocket-protocol": "v5.channel.k8s.io",
            }
            assert await received(client) == (2, b"v5.channel.k8s.io:hi")

    run(scenario())


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 1_000_000])
def test_messages_of_every_size_are_delivered(run: Run, size: int) -> None:
    async def scenario() -> None:
        async with served(upgrade) as world:
            client = await world.client()
            client.send(upgrade_request())
            _, headers = await client.head()
            assert "sec-websocket-protocol" not in headers
            message = os.urandom(size)
            client.send(masked(2, message))
            assert await received(client) == (2, b":" + message)

    run(scenario())


def test_fragments_are_joined_and_pings_between_them_answered(run: Run) -> None:
    async def scenario() -> None:
        async with served(upgrade) as world:
            client = await world.client()
            client.send(upgrade_request())
            await client.head()
            parts = masked(1, b"a", final=False) + masked(9, b"are you there") + masked(0, b"b", final=False)
            for byte in parts + masked(10, b"") + masked(0, b"c"):
                client.send(bytes((byte,)))
                await asyncio.sleep(0)
            assert await received(client) == (10, b"are you there")
            assert await received(client) == (2, b":abc")

    run(scenario())


def test_either_side_can_close_and_the_other_answers(run: Run) -> None:
    async def scenario() -> None:
        async with served(upgrade) as world:
            client = await world.client()
            client.send(upgrade_request())
            await client.head()
            client.send(masked(8, (1000).to_bytes(2) + b"bye"))
            assert await received(client) == (8, (1000).to_bytes(2))
            assert await client.rest() == b""
            other = await world.client()
            other.send(upgrade_request() + masked(2, b"end"))
            await other.head()
            assert await received(other) == (8, (1000).to_bytes(2))
            other.send(masked(8, (1000).to_bytes(2)))
            assert await other.rest() == b""

    run(scenario())


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(2, b"without mask"), 1002),
        (bytes((0xC2, 0x80)) + bytes(4), 1002),  # a reserved bit
        (masked(9, b"x" * 126), 1002),
        (masked(9, b"", final=False), 1002),
        (masked(0, b"part of nothing"), 1002),
        (masked(2, b"a", final=False) + masked(2, b"b"), 1002),
        (masked(3, b""), 1002),
        (bytes((0x82, 0xFF)) + (1 << 40).to_bytes(8), 1009),
    ],
)
def test_a_protocol_error_is_reported_in_the_close_code(run: Run, data: bytes, code: int) -> None:
    async def scenario() -> None:
        async with served(upgrade) as world:
            client = await world.client()
            client.send(upgrade_request() + data)
            await client.head()
            opcode, payload = await received(client)
            assert (opcode, int.from_bytes(payload[:2])) == (8, code)
            assert await client.rest() == b""

    run(scenario())


@pytest.mark.parametrize(
    ("request_bytes", "code", "text"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 400, "Upgrade request required"),
        (upgrade_request().replace(b"Upgrade: websocket", b"Upgrade: h2c"), 400, "Upgrade request required"),
        (upgrade_request().replace(b"Version: 13", b"Version: 8"), 426, "the WebSocket version must be 13"),
        (upgrade_request().replace(b"Gzdi", b"Gz"), 400, "Sec-WebSocket-Key must be 16 bytes in base64"),
        (
            upgrade_request("Sec-WebSocket-Protocol: v9"),
            403,
            "client supports [v9], server accepts [v5.channel.k8s.io, ",
        ),
    ],
)
def test_an_invalid_upgrade_is_rejected(run: Run, request_bytes: bytes, code: int, text: str) -> None:
    async def scenario() -> None:
        async with served(upgrade) as world:
            client = await world.client()
            for _ in range(2):
                client.send(request_bytes)
                status, _, body = await client.answer()
                assert status == code
                assert text in body.decode()

    run(scenario())


def test_spdy_gets_the_raw_bytes(run: Run) -> None:
    async def scenario() -> None:
        async with served(upgrade) as world:
            client = await world.client()
            client.send(b"POST /x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n")
            client.send(b"X-Stream-Protocol-Version: other\r\nX-Stream-Protocol-Version: portforward.k8s.io\r\n\r\nraw")
            code, headers = await client.head()
            assert (code, headers["x-stream-protocol-version"]) == (101, "portforward.k8s.io")
            assert await client.reader.readexactly(31) == b"SPDY/3.1+portforward.k8s.io:raw"
            client.writer.write_eof()
            assert await client.rest() == b""

    run(scenario())


def test_unreceived_messages_pause_reading(run: Run) -> None:
    go_on = asyncio.Event()
    taken = 0

    async def late(socket: Socket) -> None:
        nonlocal taken
        await go_on.wait()
        while (message := await socket.receive()) is not None:
            taken += len(message)

    async def offer(request: Request) -> AnyResponse:
        return Upgrade(PROTOCOLS, late)

    async def scenario() -> None:
        async with served(offer) as world:
            client = await world.client()
            client.send(upgrade_request())
            await client.head()
            client.send(masked(2, bytes(100_000)) * 200)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await client.writer.drain()
            go_on.set()
            await until(lambda: taken == 20_000_000)

    run(scenario())


def test_a_session_is_cancelled_on_disconnect_and_closed_on_shutdown(run: Run) -> None:
    ended: list[str] = []

    async def long(socket: Socket) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def offer(request: Request) -> AnyResponse:
        return Upgrade(PROTOCOLS, long)

    async def scenario() -> None:
        async with served(offer) as world:
            gone, stays = await world.client(), await world.client()
            for client in (gone, stays):
                client.send(upgrade_request())
                await client.head()
            gone.writer.transport.abort()
            await until(lambda: ended == ["cancelled"])
            stopping = asyncio.create_task(world.server.stop(2))
            assert await received(stays) == (8, (1001).to_bytes(2))
            stays.close()
            await stopping
            assert ended == ["cancelled"] * 2

    run(scenario())


def test_an_internal_error_closes_with_its_code(run: Run, expected_warnings: list[str]) -> None:
    expected_warnings.append("a connection with protocol v5.channel.k8s.io was interrupted")

    async def broken(socket: Socket) -> None:
        raise ZeroDivisionError

    async def offer(request: Request) -> AnyResponse:
        return Upgrade(PROTOCOLS, broken)

    async def scenario() -> None:
        async with served(offer) as world:
            client = await world.client()
            client.send(upgrade_request("Sec-WebSocket-Protocol: v5.channel.k8s.io"))
            await client.head()
            assert await received(client) == (8, (1011).to_bytes(2))

    run(scenario())


class Line:
    """A connection that records the written bytes."""

    def __init__(self) -> None:
        self.written = b""
        self.hung_up = False

    def write(self, data: bytes) -> None:
        self.written += data

    async def drained(self) -> None:
        return

    def hold(self, held: bool) -> None:
        return

    def hang_up(self) -> None:
        self.hung_up = True


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=6))
def test_any_bytes_in_any_fragments_are_handled(data: bytes, cuts: list[int]) -> None:
    async def scenario() -> None:
        socket = WebSocket(Line(), "", 1000)
        edges = [0, *sorted(cuts), len(data)]
        for start, end in pairwise(edges):
            socket.feed(data[start:end])
        socket.feed_eof()
        while await socket.receive() is not None:
            pass

    asyncio.run(scenario())


@given(st.binary(max_size=300), st.binary(min_size=4, max_size=4))
def test_unmasking_matches_the_rfc(data: bytes, mask: bytes) -> None:
    assert unmasked(data, mask) == bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))
