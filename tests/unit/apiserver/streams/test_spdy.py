from __future__ import annotations

import asyncio
import base64
import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.streams.spdy import DICTIONARY, Session, SpdyError, Stream
from tests.unit.apiserver.streams.nodes import Peer


class Speaker:
    """A SPDY client over a peer."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.received: dict[int, bytes] = {}
        self.closed: set[int] = set()
        self.reset: set[int] = set()
        self.replies: list[int] = []
        self.pings: list[bytes] = []
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._next = 1
        self._buffer = b""

    def control(self, kind: int, body: bytes, flags: int = 0) -> None:
        self.peer.push(b"\x80\x03" + kind.to_bytes(2) + bytes((flags,)) + len(body).to_bytes(3) + body)

    def headers(self, **headers: str) -> bytes:
        parts = [len(headers).to_bytes(4)]
        for pair in headers.items():
            parts += [len(text).to_bytes(4) + text.encode() for text in pair]
        return self._deflate.compress(b"".join(parts)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    def open(self, *, fin: bool = False, **headers: str) -> int:
        number, self._next = self._next, self._next + 2
        self.received[number] = b""
        self.control(1, number.to_bytes(4) + bytes(6) + self.headers(**headers), int(fin))
        return number

    def data(self, number: int, data: bytes, *, fin: bool = False) -> None:
        self.peer.push(number.to_bytes(4) + bytes((int(fin),)) + len(data).to_bytes(3) + data)

    async def listen(self) -> None:
        """Read the next frame of the server."""
        self._buffer += await self.peer.received()
        while len(self._buffer) >= 8 and len(self._buffer) >= (end := 8 + int.from_bytes(self._buffer[5:8])):
            head, flags, body = self._buffer[:4], self._buffer[4], self._buffer[8:end]
            self._buffer = self._buffer[end:]
            if not head[0] & 0x80:
                number = int.from_bytes(head)
                self.received[number] += body
                if flags & 1:
                    self.closed.add(number)
            elif head[3] == 2:
                assert self._inflate.decompress(body[4:]) == bytes(4)
                self.replies.append(int.from_bytes(body[:4]))
            elif head[3] == 3:
                self.reset.add(int.from_bytes(body[:4]))
            elif head[3] == 6:
                self.pings.append(body)

    async def until_closed(self, number: int) -> None:
        while number not in self.closed:
            await self.listen()

    async def wait_for_replies(self, count: int) -> None:
        while len(self.replies) < count:
            await self.listen()


def test_the_dictionary_is_that_of_the_specification() -> None:
    assert len(DICTIONARY) == 1423
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2  # as in every recorded header block


def serve(scenario: Callable[[Speaker, list[Stream]], Any]) -> None:
    """Run a session concurrently with a client."""

    async def main() -> None:
        peer = Peer("")
        opened: list[Stream] = []
        session = Session(peer.send, opened.append)

        async def feed() -> None:
            while (data := await peer.receive()) is not None:
                await session.feed(data)

        feeding = asyncio.create_task(feed())
        async with asyncio.timeout(50):
            await scenario(Speaker(peer), opened)
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)

    asyncio.run(main())


def test_streams_are_bidirectional_and_can_be_half_closed() -> None:
    async def scenario(client: Speaker, opened: list[Stream]) -> None:
        number = client.open(streamtype="data", port="80")
        client.data(number, b"ab")
        client.data(number, b"cd", fin=True)
        await client.wait_for_replies(1)
        (stream,) = opened
        assert stream.headers == {"streamtype": "data", "port": "80"}
        assert [await stream.read(), await stream.read(), await stream.read()] == [b"ab", b"cd", b""]
        await stream.write(b"answer")
        await stream.close()
        await client.until_closed(number)
        assert client.received[number] == b"answer"
        with pytest.raises(ConnectionResetError):
            await stream.write(b"more")

    serve(scenario)


def test_either_side_can_reset_a_stream() -> None:
    async def scenario(client: Speaker, opened: list[Stream]) -> None:
        for _ in range(2):
            client.open()
        await client.wait_for_replies(2)
        client.control(3, (1).to_bytes(4) + (5).to_bytes(4))
        with pytest.raises(ConnectionResetError):
            await opened[0].read()
        await opened[1].reset()
        await client.listen()
        assert client.reset == {3}
        client.data(3, b"late")  # ignored
        client.data(99, b"never opened")
        await client.listen()
        assert client.reset == {3, 99}

    serve(scenario)


def test_pings_are_answered_and_other_frames_ignored() -> None:
    async def scenario(client: Speaker, opened: list[Stream]) -> None:
        client.control(4, bytes(4))  # settings
        client.control(9, bytes(8))  # window update
        client.control(8, (1).to_bytes(4) + client.headers(a="b"))
        client.control(6, (2).to_bytes(4))  # a reply to a ping of the server
        client.control(6, (7).to_bytes(4))
        number = client.open(x="y")  # the compression state is still synchronized
        client.control(1, number.to_bytes(4) + bytes(6) + client.headers())
        client.control(7, bytes(8))
        await client.wait_for_replies(1)
        assert client.pings == [(7).to_bytes(4)]
        assert opened[0].headers == {"x": "y"}
        await client.listen()
        assert client.reset == {number}  # a stream ID is used once

    serve(scenario)


def test_an_unread_stream_blocks_the_session() -> None:
    async def scenario(client: Speaker, opened: list[Stream]) -> None:
        number = client.open()
        for _ in range(20):
            client.data(number, bytes(100_000))
        await client.wait_for_replies(1)
        await asyncio.sleep(0.05)
        assert client.peer.coming.qsize() > 10
        total = 0
        while total < 2_000_000:
            total += len(await opened[0].read())
        assert client.peer.coming.empty()

    serve(scenario)


def compressed(plain: bytes) -> bytes:
    deflate = zlib.compressobj(zdict=DICTIONARY)
    return deflate.compress(plain) + deflate.flush(zlib.Z_SYNC_FLUSH)


SHORT = compressed(b"\0\0\0\2\0\0\0\1a\0\0\0\1b")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"GET / HT", "a frame of"),
        (b"\x80\x02\x00\x01\x00\x00\x00\x00", "version 2, not 3"),
        (b"\x80\x03\x00\x01\x00\x00\x00\x04abcd", "a stream without a number"),
        (b"\x80\x03\x00\x01\x00\x00\x00\x0e" + bytes(10) + b"junk", "headers that cannot be read"),
        (b"\x80\x03\x00\x08\x00\x00\x00" + bytes((len(SHORT) + 4,)) + bytes(4) + SHORT, "headers that end too early"),
    ],
)
def test_invalid_frames_are_errors(data: bytes, message: str) -> None:
    async def scenario() -> None:
        peer = Peer("")
        with pytest.raises(SpdyError, match=message):
            await Session(peer.send, lambda _: None).feed(data)

    asyncio.run(scenario())


def test_the_size_of_decompressed_headers_is_limited() -> None:
    async def scenario() -> None:
        peer = Peer("")
        speaker = Speaker(peer)
        speaker.open(bomb="0" * 10_000_000)
        frame = await peer.receive()
        assert frame is not None
        assert len(frame) < 50_000
        with pytest.raises(SpdyError, match="headers of more than"):
            await Session(peer.send, lambda _: None).feed(frame)

    asyncio.run(scenario())


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_any_bytes_are_handled_without_a_crash(pieces: list[bytes]) -> None:
    async def scenario() -> None:
        session = Session(Peer("").send, lambda _: None)
        try:
            for piece in pieces:
                await session.feed(piece)
        except SpdyError:
            pass

    asyncio.run(scenario())


def messages(data: bytes) -> Iterator[bytes]:
    """The payloads of recorded WebSocket frames."""
    position = 0
    while position < len(data):
        length, masked = data[position + 1] & 0x7F, data[position + 1] & 0x80
        position += 2
        if length == 126:
            length = int.from_bytes(data[position : position + 2])
            position += 2
        mask = data[position : position + 4] if masked else bytes(4)
        position += 4 if masked else 0
        yield bytes(byte ^ mask[i % 4] for i, byte in enumerate(data[position : position + length]))
        position += length


def test_recorded_tunnels_of_kubectl_are_decoded(shared: Callable[[str], Path]) -> None:
    with gzip.open(shared("vectors/apiserver/70-kubectl-helm-wire.jsonl.gz"), "rt") as lines:
        rows = [json.loads(line) for line in lines]
    tunnels = [row for row in rows if row["tag"].startswith("port-forward") and row.get("upgrade_client_bytes")]
    assert len(tunnels) == 2
    for row in tunnels:

        async def scenario(recorded: bytes) -> list[dict[str, str]]:
            opened: list[Stream] = []
            session = Session(Peer("").send, opened.append)
            for message in messages(recorded):
                await session.feed(message)
            for stream in opened:
                if stream.headers["streamtype"] == "data":
                    assert (await stream.read()).startswith(b"GET /") or stream.done
            return [stream.headers for stream in opened]

        headers = asyncio.run(scenario(base64.b64decode(row["upgrade_client_bytes"])))
        assert {tuple(sorted(each)) for each in headers} == {("port", "requestid", "streamtype")}
        assert [each["streamtype"] for each in headers] == ["error", "data"] * (len(headers) // 2)
