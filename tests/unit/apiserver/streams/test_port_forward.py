from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from allotment.apiserver.http_messages import Request
from allotment.apiserver.streams import serve
from allotment.cluster.errors import StatusError
from tests.unit.apiserver.streams.nodes import POD, Nodes, Peer
from tests.unit.apiserver.streams.test_spdy import Speaker

TUNNEL = "SPDY/3.1+portforward.k8s.io"


async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A program in a pod: it returns its complete input in upper case and closes; ``ping`` is answered immediately."""
    with suppress(ConnectionError):
        whole = b""
        while data := await reader.read(65536):
            whole += data
            if data == b"ping":
                writer.write(b"pong")
                whole = b""
        writer.write(whole.upper())
    writer.close()


def forwarded(protocol: str, scenario: Callable[[Peer], Awaitable[None]], query: str = "") -> None:
    async def main() -> None:
        listener = await asyncio.start_server(shout, "127.0.0.1", 0)
        async with listener:
            nodes = Nodes({80: listener.sockets[0].getsockname()[1]})
            headers = {"upgrade": "websocket", "sec-websocket-protocol": protocol}
            given: Any = await serve("portforward", Request("GET", "/portforward", query, headers), POD, nodes)
            peer = Peer(protocol)
            talking = asyncio.create_task(given.talk(peer))
            async with asyncio.timeout(50):
                await scenario(peer)
                peer.push(None)
                await talking

    asyncio.run(main())


def pair(client: Speaker, request: str, port: str = "80") -> tuple[int, int]:
    error = client.open(streamtype="error", port=port, requestid=request)
    client.data(error, b"", fin=True)
    return error, client.open(streamtype="data", port=port, requestid=request)


def test_a_tunnel_carries_concurrent_connections() -> None:
    async def scenario(peer: Peer) -> None:
        client = Speaker(peer)
        pairs = [pair(client, str(n)) for n in range(3)]
        for place, (_, data) in enumerate(pairs):
            client.data(data, f"hello {place} ".encode())
        for _, data in reversed(pairs):
            client.data(data, b"bye", fin=True)
        for place, (error, data) in enumerate(pairs):
            await client.until_closed(data)
            await client.until_closed(error)
            assert client.received[data] == f"HELLO {place} BYE".encode()
            assert client.received[error] == b""

    forwarded(TUNNEL, scenario)


def test_a_large_body_is_forwarded_completely() -> None:
    async def scenario(peer: Peer) -> None:
        client = Speaker(peer)
        error, data = pair(client, "0")
        for _ in range(40):
            client.data(data, b"x" * 100_000)
        client.data(data, b"", fin=True)
        await client.until_closed(error)
        assert client.received[data] == b"X" * 4_000_000

    forwarded(TUNNEL, scenario)


@pytest.mark.parametrize(
    ("port", "message"),
    [
        ("81", "error forwarding port 81 to pod web: Connection refused"),
        ("web", "port 'web' is not a number from 1 to 65535"),
    ],
)
def test_failures_are_reported_on_the_error_stream(port: str, message: str) -> None:
    async def scenario(peer: Peer) -> None:
        client = Speaker(peer)
        error, data = pair(client, "0", port)
        await client.until_closed(error)
        assert client.received[error].decode() == message
        assert data in client.closed

    forwarded(TUNNEL, scenario)


def test_a_client_can_close_a_connection_and_keep_the_tunnel() -> None:
    async def scenario(peer: Peer) -> None:
        client = Speaker(peer)
        error, data = pair(client, "0")
        client.data(data, b"ping")
        while client.received[data] != b"pong":
            await client.listen()
        client.control(3, data.to_bytes(4) + (5).to_bytes(4))
        await client.until_closed(error)
        error, data = pair(client, "1")
        client.data(data, b"again", fin=True)
        await client.until_closed(error)
        assert client.received[data] == b"AGAIN"

    forwarded(TUNNEL, scenario)


def test_unpaired_streams_are_rejected() -> None:
    async def scenario(peer: Peer) -> None:
        client = Speaker(peer)
        first = client.open(streamtype="data", port="80", requestid="0")
        second = client.open(streamtype="data", port="80", requestid="0")
        while client.reset != {first, second}:
            await client.listen()

    forwarded(TUNNEL, scenario)


def test_streams_without_a_request_id_are_paired_by_number() -> None:
    async def scenario(peer: Peer) -> None:
        client = Speaker(peer)
        error = client.open(streamtype="error", port="80")
        data = client.open(streamtype="data", port="80")
        client.data(data, b"old", fin=True)
        await client.until_closed(error)
        assert client.received[data] == b"OLD"

    forwarded(TUNNEL, scenario)


def test_invalid_spdy_ends_the_tunnel() -> None:
    async def scenario(peer: Peer) -> None:
        peer.push(b"GET / HTTP/1.1\r\n\r\n")

    forwarded(TUNNEL, scenario)


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", ""])
def test_channels_are_one_connection_for_each_port(protocol: str) -> None:
    async def scenario(peer: Peer) -> None:
        received = {await peer.received() for _ in range(4)}
        assert received == {b"\x00\x50\x00", b"\x01\x50\x00", b"\x02\x51\x00", b"\x03\x51\x00"}
        assert await peer.received() == b"\x03error forwarding port 81 to pod web: Connection refused"
        peer.push(b"\x00ping", b"", b"\x09nobody", b"\x01error channels are not written to")
        assert await peer.received() == b"\x00pong"

    forwarded(protocol, scenario, "ports=80&ports=81")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", 'query parameter "ports" is required'),
        ("ports=80,x", "port 'x' is not a number from 1 to 65535"),
        ("ports=65536", "port '65536' is not a number"),
        ("&".join(f"ports={n}" for n in range(1, 130)), "expected at most 127 ports, found 129"),
    ],
)
def test_channels_require_ports(query: str, message: str) -> None:
    async def scenario(peer: Peer) -> None:
        raise AssertionError

    with pytest.raises(StatusError, match=message):
        forwarded("v4.channel.k8s.io", scenario, query)


def test_a_pod_without_a_node_has_no_ports() -> None:
    pod = {**POD, "spec": {"containers": []}}
    with pytest.raises(StatusError, match="pod web does not have a host assigned"):
        asyncio.run(serve("portforward", Request("GET", "/"), pod, Nodes()))
