"""A server on a loopback socket, and a client that sends raw bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from allotment.apiserver.http_messages import AnyResponse, Application, Request, Response
from allotment.lab.http_server import Limits, Server

HTML = (("Content-Type", "text/plain"),)
Run = Callable[[Coroutine[Any, Any, None]], None]


async def echo(request: Request) -> AnyResponse:
    """Echo the request."""
    return Response(200, HTML, f"{request.method} {request.path} {request.query} {len(request.body)}".encode())


class Client:
    """A raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def head(self) -> tuple[int, dict[str, str]]:
        """Read the status code and headers of the next response."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:-2])}
        return int(lines[0].split(" ")[1]), headers

    async def answer(self, *, body: bool = True) -> tuple[int, dict[str, str], bytes]:
        """Read the next response, with a body of known length or in chunks."""
        code, headers = await self.head()
        if not body:
            return code, headers, b""
        if headers.get("transfer-encoding") == "chunked":
            data = b""
            while piece := await self.chunk():
                data += piece
            return code, headers, data
        return code, headers, await self.reader.readexactly(int(headers.get("content-length", 0)))

    async def chunk(self) -> bytes:
        """Read the next chunk; empty at the end."""
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def rest(self) -> bytes:
        """Read until the server closes the connection."""
        try:
            async with asyncio.timeout(40):
                return await self.reader.read()
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        self.writer.close()


class World:
    """A server, its port, and its clients."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.port = port
        self.clients: list[Client] = []

    async def client(self, **more: Any) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port, **more))
        self.clients.append(client)
        return client


@asynccontextmanager
async def served(
    application: Application = echo, limits: Limits | None = None, tls: Any = None
) -> AsyncIterator[World]:
    server = Server(application, (limits or Limits())._replace(check_seconds=0.05, linger_seconds=2))
    world = World(server, await server.listen("127.0.0.1", 0, tls))
    try:
        yield world
    finally:
        for client in world.clients:
            client.close()
        await server.stop(1)
        for client in world.clients:
            try:
                async with asyncio.timeout(2):
                    await client.writer.wait_closed()
            except (OSError, TimeoutError):
                client.writer.transport.abort()
