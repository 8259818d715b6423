from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from allotment.apiserver.http_messages import Request
from allotment.apiserver.streams import answer
from allotment.cluster.errors import StatusError
from tests.unit.apiserver.streams.nodes import POD, Nodes, Peer
from tests.unit.apiserver.streams.test_spdy import Speaker

TUNNEL = "SPDY/3.1+portforward.k8s.io"


async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A program in a pod: it answers all that it was sent in capitals, and closes; ``ping`` is answered immediately."""
    with suppress(ConnectionError):
        whole = b""
        while data := await reader.read(65536):
            whole += data
            if data == b"ping":
                writer.write(b"pong")
                whole = b""
        writer.write(whole.upper())
    writer.close()


def forwarded(protocol: str, story: Callable[[Peer], Awaitable[None]], query: str = "") -> None:
    async def main() -> None:
        listener = await asyncio.start_server(shout, "127.0.0.1", 0)
        async with listener:
            nodes = Nodes({80: listener.sockets[0].getsockname()[1]})
            headers = {"upgrade": "websocket", "sec-websocket-protocol": protocol}
            given: Any = await answer("portforward", Request("GET", "/portforward", query, headers), POD, nodes)
            peer = Peer(protocol)
            talking = asyncio.create_task(given.talk(peer))
            async with asyncio.timeout(50):
                await story(peer)
                peer.say(None)
                await talking

    asyncio.run(main())


def pair(client: Speaker, request: str, port: str = "80") -> tuple[int, int]:
    error = client.open(streamtype="error", port=port, requestid=request)
    client.data(error, b"", fin=True)
    return error, client.open(streamtype="data", port=port, requestid=request)


def test_a_tunnel_carries_connections_side_by_side() -> None:
    async def story(peer: Peer) -> None:
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

    forwarded(TUNNEL, story)


def test_a_large_body_passes_whole() -> None:
    async def story(peer: Peer) -> None:
        client = Speaker(peer)
        error, data = pair(client, "0")
        for _ in range(40):
            client.data(data, b"x" * 100_000)
        client.data(data, b"", fin=True)
        await client.until_closed(error)
        assert client.received[data] == b"X" * 4_000_000

    forwarded(TUNNEL, story)


@pytest.mark.parametrize(
    ("port", "message"),
    [
        ("81", "error forwarding port 81 to pod web: Connection refused"),
        ("web", "port 'web' is not a number from 1 to 65535"),
    ],
)
def test_failures_are_reported_on_the_error_stream(port: str, message: str) -> None:
    async def story(peer: Peer) -> None:
        client = Speaker(peer)
        error, data = pair(client, "0", port)
        await client.until_closed(error)
        assert client.received[error].decode() == message
        assert data in client.closed

    forwarded(TUNNEL, story)


def test_a_client_may_give_a_connection_up_and_keep_the_tunnel() -> None:
    async def story(peer: Peer) -> None:
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

    forwarded(TUNNEL, story)


def test_two_streams_that_make_no_pair_are_refused() -> None:
    async def story(peer: Peer) -> None:
        client = Speaker(peer)
        first = client.open(streamtype="data", port="80", requestid="0")
        second = client.open(streamtype="data", port="80", requestid="0")
        while client.reset != {first, second}:
            await client.listen()

    forwarded(TUNNEL, story)


def test_streams_of_very_old_clients_belong_together_by_number() -> None:
    async def story(peer: Peer) -> None:
        client = Speaker(peer)
        error = client.open(streamtype="error", port="80")
        data = client.open(streamtype="data", port="80")
        client.data(data, b"old", fin=True)
        await client.until_closed(error)
        assert client.received[data] == b"OLD"

    forwarded(TUNNEL, story)


def test_what_is_no_spdy_ends_the_tunnel() -> None:
    async def story(peer: Peer) -> None:
        peer.say(b"GET / HTTP/1.1\r\n\r\n")

    forwarded(TUNNEL, story)


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", ""])
def test_channels_are_one_connection_for_each_port(protocol: str) -> None:
    async def story(peer: Peer) -> None:
        received = {await peer.received() for _ in range(4)}
        assert received == {b"\x00\x50\x00", b"\x01\x50\x00", b"\x02\x51\x00", b"\x03\x51\x00"}
        assert await peer.received() == b"\x03error forwarding port 81 to pod web: Connection refused"
        peer.say(b"\x00ping", b"", b"\x09nobody", b"\x01error channels are not written to")
        assert await peer.received() == b"\x00pong"

    forwarded(protocol, story, "ports=80&ports=81")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", 'query parameter "ports" is required'),
        ("ports=80,x", "port 'x' is not a number from 1 to 65535"),
        ("ports=65536", "port '65536' is not a number"),
        ("&".join(f"ports={n}" for n in range(1, 130)), "at most 127 ports, not 129"),
    ],
)
def test_channels_need_ports(query: str, message: str) -> None:
    async def story(peer: Peer) -> None:
        raise AssertionError

    with pytest.raises(StatusError, match=message):
        forwarded("v4.channel.k8s.io", story, query)


def test_a_pod_without_a_node_has_no_ports() -> None:
    pod = {**POD, "spec": {"containers": []}}
    with pytest.raises(StatusError, match="pod web does not have a host assigned"):
        asyncio.run(answer("portforward", Request("GET", "/"), pod, Nodes()))
