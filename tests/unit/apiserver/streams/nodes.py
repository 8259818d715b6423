"""Kubelets for tests: containers that print fixed lines, run a few commands, and listen on loopback ports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

from allotment.apiserver.streams.kubelets import Sizes, Write
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree
from allotment.model.validation.errors import failure_status

POD: Tree = {
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
    "status": {"containerStatuses": [{"name": "c", "state": {"running": {}}}]},
}


class Port:
    """A TCP connection of a node."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        return await self._reader.read(65536)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def write_eof(self) -> None:
        self._writer.write_eof()

    async def close(self) -> None:
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)


class Nodes:
    """The kubelet of every pod."""

    def __init__(self, ports: dict[int, int] | None = None) -> None:
        self.ports = ports or {}
        self.requests: list[Any] = []
        self.cancelled = 0

    def metrics(self, node: Tree) -> bytes | None:
        return f"of {node['metadata']['name']}\n".encode() if node["metadata"].get("labels") else None

    async def logs(
        self, pod: Tree, container: str, *, follow: bool, previous: bool, timestamps: bool, tail: int | None,
        since: datetime | None, since_seconds: int | None,
    ) -> AsyncIterator[bytes]:  # fmt: skip
        self.requests.append((container, follow, previous, timestamps, tail, since, since_seconds))
        for number in range(3):
            yield f"line {number}\n".encode()
            await asyncio.sleep(0)

    async def exec(
        self, pod: Tree, container: str, command: Sequence[str], *, stdin: AsyncIterator[bytes] | None, stdout: Write,
        stderr: Write, tty: bool, sizes: Sizes,
    ) -> int:  # fmt: skip
        self.requests.append((container, tuple(command), tty))
        try:
            match command:
                case ["cat"]:
                    assert stdin is not None
                    async for data in stdin:
                        await stdout(data)
                case ["fail"]:
                    await stdout(b"out\n")
                    await stderr(b"err\n")
                    return 3
                case ["size"]:
                    width, height = await anext(sizes)
                    await stdout(f"{width}x{height}\n".encode())
                case ["sleep"]:
                    await asyncio.Event().wait()
                case _:
                    raise StatusError(failure_status(400, "BadRequest", f"{command[0]}: not found"))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return 0

    async def attach(
        self, pod: Tree, container: str, *, stdin: AsyncIterator[bytes] | None, stdout: Write, stderr: Write, tty: bool,
        sizes: Sizes,
    ) -> int:  # fmt: skip
        await stdout(b"attached\n")
        return 0

    async def port(self, pod: Tree, port: int) -> Port:
        if port not in self.ports:
            raise ConnectionRefusedError(111, "Connection refused")
        return Port(*await asyncio.open_connection("127.0.0.1", self.ports[port]))


class Peer:
    """A socket whose other end is the test."""

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.sent: asyncio.Queue[bytes] = asyncio.Queue()
        self.coming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.code: int | None = None

    async def receive(self) -> bytes | None:
        return await self.coming.get()

    async def send(self, message: bytes, *, is_text: bool = False) -> None:
        self.sent.put_nowait(message)

    async def close(self, code: int = 1000) -> None:
        self.code = code

    def push(self, *messages: bytes | None) -> None:
        for message in messages:
            self.coming.put_nowait(message)

    async def received(self) -> bytes:
        async with asyncio.timeout(50):
            return await self.sent.get()

    def rest(self) -> list[bytes]:
        return [self.sent.get_nowait() for _ in range(self.sent.qsize())]
