"""The ``portforward`` subresource: connections to the ports of a pod.

kubectl opens a pair of SPDY streams per connection, ``data`` and ``error``, with the same ``requestid``; text on the
error stream is shown to the user. The Python client uses one pair of WebSocket channels per port in the query, so one
connection per port; each channel starts with the port number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from allotment.apiserver.http_messages import AnyResponse, Request, Socket, Upgrade
from allotment.apiserver.request_options import parse_query
from allotment.apiserver.streams.command_input import Input
from allotment.apiserver.streams.container_lookup import bad_request, kubelets_for, name_of
from allotment.apiserver.streams.kubelets import Connection, Kubelets, Write
from allotment.apiserver.streams.spdy import Session, SpdyError, Stream
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree

Read = Callable[[], Awaitable[bytes]]

_TUNNEL: Final = "SPDY/3.1+portforward.k8s.io"
_PROTOCOLS: Final = (_TUNNEL, "v4.channel.k8s.io", "portforward.k8s.io", "")
#: Timeout for the second stream of a pair.
_PAIR_SECONDS: Final = 30.0
_PORTS_MOST: Final = 127


async def forward(request: Request, pod: Tree, kubelets: Kubelets | None) -> AnyResponse:
    """Handle a port-forward request."""
    nodes = kubelets_for(pod, kubelets)
    ports = [_port(text) for value in parse_query(request.query).get("ports", ()) for text in value.split(",")]
    if len(ports) > _PORTS_MOST:
        raise bad_request(f"expected at most {_PORTS_MOST} ports, found {len(ports)}")
    headers = request.headers
    offered = headers.get("sec-websocket-protocol", "") + headers.get("x-stream-protocol-version", "")
    if headers.get("upgrade", "").lower() == "websocket" and _TUNNEL not in offered and not ports:
        raise bad_request('query parameter "ports" is required')

    async def talk(socket: Socket) -> None:
        if socket.protocol == _TUNNEL:
            await _Forwarding(socket, pod, nodes).run()
        else:
            await _over_channels(socket, pod, nodes, ports)

    return Upgrade(_PROTOCOLS, talk)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise bad_request(f"port {text!r} is not a number from 1 to 65535")
    return int(text)


async def _carry(pod: Tree, nodes: Kubelets, port: int, read: Read, write: Write) -> str:
    """Copy data between a client's stream and a port until both directions end; returns the error message, if any."""
    try:
        connection = await nodes.port(pod, port)
    except StatusError as error:
        return _failed(pod, port, str(error))
    except OSError as error:
        return _failed(pod, port, error.strerror or str(error))
    try:
        await _both_ways(connection, read, write)
    except OSError as error:  # the client or the program has gone; the latter is worth a word
        return _failed(pod, port, error.strerror or str(error))
    finally:
        await connection.close()
    return ""


async def _both_ways(connection: Connection, read: Read, write: Write) -> None:
    async def upwards() -> None:
        while data := await read():
            await connection.write(data)
        await connection.write_eof()

    async def downwards() -> None:
        while data := await connection.read():
            await write(data)

    sending, receiving = asyncio.ensure_future(upwards()), asyncio.ensure_future(downwards())
    try:
        await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
        if not receiving.done():
            sending.result()  # a client may send all it has and then read; one that broke off raises here
        await receiving  # when the program has closed, what the client may still send has no reader
    finally:
        for task in (sending, receiving):
            task.cancel()
        await asyncio.gather(sending, receiving, return_exceptions=True)


def _failed(pod: Tree, port: int, why: str) -> str:
    return f"error forwarding port {port} to pod {name_of(pod)}: {why}"


# --- pairs of SPDY streams


class _Forwarding:
    """A SPDY session with any number of connections."""

    def __init__(self, socket: Socket, pod: Tree, nodes: Kubelets) -> None:
        self._socket = socket
        self._pod = pod
        self._nodes = nodes
        self._session = Session(socket.send, self._opened)
        self._halves: dict[str, Stream] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve connections until the client disconnects."""
        try:
            while (data := await self._socket.receive()) is not None:
                await self._session.feed(data)
        except SpdyError:
            return  # not a SPDY client
        finally:
            self._session.lose()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _opened(self, stream: Stream) -> None:
        # Very old clients send no request ids: a data stream belongs to the preceding error stream.
        number = stream.number if stream.headers.get("streamtype") == "error" else stream.number - 2
        request = stream.headers.get("requestid") or str(number)
        other = self._halves.pop(request, None)
        if other is None:
            self._halves[request] = stream
            self._start(self._expire(request, stream))
            return
        pair = {s.headers.get("streamtype"): s for s in (other, stream)}
        if set(pair) != {"error", "data"}:
            self._start(_reset(other, stream))
        else:
            self._start(self._connect(pair["data"], pair["error"]))

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _expire(self, request: str, stream: Stream) -> None:
        await asyncio.sleep(_PAIR_SECONDS)
        if self._halves.get(request) is stream:
            del self._halves[request]
            await stream.reset()

    async def _connect(self, data: Stream, error: Stream) -> None:
        try:
            port = _port(data.headers.get("port", ""))
        except StatusError as refusal:
            problem = str(refusal)
        else:
            problem = await _carry(self._pod, self._nodes, port, data.read, data.write)
        try:
            if problem:
                await error.write(problem.encode())
            await data.close()
            await error.close()
        except OSError:
            pass  # the client has given the pair up
        finally:
            data.lose()  # what it still sends must not hold the session


async def _reset(*streams: Stream) -> None:
    for stream in streams:
        await stream.reset()


# --- pairs of channels


async def _over_channels(socket: Socket, pod: Tree, nodes: Kubelets, ports: list[int]) -> None:
    inputs = [Input() for _ in ports]

    async def listen() -> None:
        while (message := await socket.receive()) is not None:
            index, is_error = divmod(message[0], 2) if message else (len(ports), 0)
            if index < len(ports) and not is_error:
                await inputs[index].put(message[1:])

    async def connect(index: int, port: int) -> None:
        data, error = bytes((index * 2,)), bytes((index * 2 + 1,))
        number = port.to_bytes(2, "little")
        await socket.send(data + number)
        await socket.send(error + number)

        async def read() -> bytes:
            return await anext(inputs[index], b"")

        async def write(piece: bytes) -> None:
            await socket.send(data + piece)

        if problem := await _carry(pod, nodes, port, read, write):
            await socket.send(error + problem.encode())

    listening = asyncio.ensure_future(listen())
    working = asyncio.gather(*(connect(index, port) for index, port in enumerate(ports)))
    try:
        await asyncio.wait((listening, working), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (listening, working):
            task.cancel()
        await asyncio.gather(listening, working, return_exceptions=True)
