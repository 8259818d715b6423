"""The ``exec`` and ``attach`` subresources, which connect a client to a process in a container.

Clients differ in the transport: numbered channels in WebSocket messages (kubectl's ``v5``, the Python client's ``v4``),
or one SPDY stream per channel (older kubectl). In both, a Status on the error channel ends the session; it contains
the command's exit code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from allotment.apiserver.http_messages import AnyResponse, Request, Socket, Upgrade
from allotment.apiserver.request_options import boolean, first, parse_query
from allotment.apiserver.streams.command_input import Input, Sizes
from allotment.apiserver.streams.container_lookup import bad_request, container_named, is_running, kubelets_for
from allotment.apiserver.streams.kubelets import Kubelets, Write
from allotment.apiserver.streams.spdy import Session, SpdyError, Stream
from allotment.cluster.errors import StatusError
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation.errors import failure_status

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_V5: Final = "v5.channel.k8s.io"
_SPDY: Final = "SPDY/3.1+"
_PROTOCOLS: Final = (_V5, "v4.channel.k8s.io", f"{_SPDY}v4.channel.k8s.io", "")
#: Timeout for the client to open all requested streams.
_OPENING_SECONDS: Final = 30.0


class _CommandStreams(NamedTuple):
    """The command's ends of the streams."""

    stdin: Input | None
    stdout: Write
    stderr: Write
    sizes: Sizes


class _StreamRequest(NamedTuple):
    """The streams that a client requests, and the function that runs the command."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool
    start: Callable[[_CommandStreams], Awaitable[int]]


async def execute(request: Request, pod: Tree, kubelets: Kubelets | None) -> AnyResponse:
    """Handle an exec request."""
    query = parse_query(request.query)
    container = container_named(pod, first(query, "container"))
    nodes = kubelets_for(pod, kubelets)
    command = list(query.get("command", ()))
    if not command:
        raise bad_request("you must specify at least one command for the container")

    async def start(ends: _CommandStreams) -> int:
        _reject_stopped(pod, container)
        return await nodes.exec(
            pod, container, command, stdin=ends.stdin, stdout=ends.stdout, stderr=ends.stderr,
            tty=boolean(query, "tty"), sizes=ends.sizes,
        )  # fmt: skip

    return _upgrade(query, start)


async def attach(request: Request, pod: Tree, kubelets: Kubelets | None) -> AnyResponse:
    """Handle an attach request."""
    query = parse_query(request.query)
    container = container_named(pod, first(query, "container"))
    nodes = kubelets_for(pod, kubelets)

    async def start(ends: _CommandStreams) -> int:
        _reject_stopped(pod, container)
        return await nodes.attach(
            pod, container, stdin=ends.stdin, stdout=ends.stdout, stderr=ends.stderr, tty=boolean(query, "tty"),
            sizes=ends.sizes,
        )  # fmt: skip

    return _upgrade(query, start)


def _upgrade(query: Mapping[str, Any], start: Callable[[_CommandStreams], Awaitable[int]]) -> AnyResponse:
    tty = boolean(query, "tty")
    # A terminal has one output stream: the kubelet ignores stderr with tty.
    requested = _StreamRequest(
        boolean(query, "stdin"), boolean(query, "stdout"), boolean(query, "stderr") and not tty, tty, start
    )
    if not (requested.stdin or requested.stdout or requested.stderr):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")

    async def talk(socket: Socket) -> None:
        await (_over_spdy if socket.protocol.startswith(_SPDY) else _over_channels)(socket, requested)

    return Upgrade(_PROTOCOLS, talk)


def _reject_stopped(pod: Tree, container: str) -> None:
    """Upstream gets this error from the kubelet after the upgrade, so it is sent over the error channel."""
    if not is_running(pod, container):
        cause = f"unable to upgrade connection: container not found ({quote(container)})"
        details = {"causes": [{"message": cause}]}
        raise StatusError(failure_status(500, "InternalError", f"Internal error occurred: {cause}", details))


async def _run_to_status(requested: _StreamRequest, ends: _CommandStreams) -> bytes:
    """Run the command and return the final Status."""
    try:
        code = await requested.start(ends)
    except StatusError as error:
        return msgspec.json.encode(error.status)
    if code == 0:
        return b'{"metadata":{},"status":"Success"}'
    message = f"command terminated with non-zero exit code: command terminated with exit code {code}"
    causes = [{"reason": "ExitCode", "message": str(code)}]
    status = {"metadata": {}, "status": "Failure", "message": message, "reason": "NonZeroExitCode",
              "details": {"causes": causes}}  # fmt: skip
    return msgspec.json.encode(status)


async def _until_disconnect(client: Awaitable[None], work: Awaitable[bytes]) -> bytes | None:
    """The result of the work, or None if the client disconnects first."""
    listening, working = asyncio.ensure_future(client), asyncio.ensure_future(work)
    try:
        await asyncio.wait((listening, working), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        listening.result()
        return None
    finally:
        for task in (listening, working):
            task.cancel()
        await asyncio.gather(listening, working, return_exceptions=True)


async def _discard(_: bytes) -> None:
    """Discard output that the client did not request."""


# --- numbered channels in WebSocket messages


async def _over_channels(socket: Socket, requested: _StreamRequest) -> None:
    stdin, sizes = Input(), Sizes()

    def to(channel: int) -> Write:
        mark = bytes((channel,))

        async def write(data: bytes) -> None:
            if data:
                await socket.send(mark + data)

        return write

    async def listen() -> None:
        while (message := await socket.receive()) is not None:
            channel, data = message[:1], message[1:]
            if channel == bytes((_STDIN,)):
                await stdin.put(data)
            elif channel == bytes((_RESIZE,)):
                sizes.put(data)
            elif channel == bytes((_CLOSE,)) and socket.protocol == _V5 and data[:1] == bytes((_STDIN,)):
                stdin.end()

    ends = _CommandStreams(
        stdin if requested.stdin else None,
        to(_STDOUT) if requested.stdout else _discard,
        to(_STDERR) if requested.stderr else to(_STDOUT) if requested.tty and requested.stdout else _discard,
        sizes,
    )
    await socket.send(bytes((_STDOUT,)))  # as upstream does
    if (last := await _until_disconnect(listen(), _run_to_status(requested, ends))) is not None:
        await socket.send(bytes((_ERROR,)) + last)


# --- a SPDY stream for each


async def _over_spdy(socket: Socket, requested: _StreamRequest) -> None:
    required = {
        "error": True,
        "stdin": requested.stdin,
        "stdout": requested.stdout,
        "stderr": requested.stderr,
        "resize": requested.tty,
    }
    missing = {name for name, is_required in required.items() if is_required}
    streams: dict[str, Stream] = {}
    complete = asyncio.Event()

    def opened(stream: Stream) -> None:
        name = stream.headers.get("streamtype", "")
        streams[name] = stream
        missing.discard(name)
        if not missing:
            complete.set()

    session = Session(socket.send, opened)

    async def listen() -> None:
        try:
            while (data := await socket.receive()) is not None:
                await session.feed(data)
        except SpdyError:
            return  # not a SPDY client

    async def work() -> bytes:
        async with asyncio.timeout(_OPENING_SECONDS):
            await complete.wait()
        return await _over_streams(streams, requested)

    try:
        last = await _until_disconnect(listen(), work())
        if last is not None:
            await streams["error"].write(last)
            for stream in streams.values():
                await stream.close()
    except TimeoutError:
        return
    finally:
        session.lose()


async def _over_streams(streams: Mapping[str, Stream], requested: _StreamRequest) -> bytes:
    stdin, sizes = Input(), Sizes()

    async def read_stdin() -> None:
        try:
            while data := await streams["stdin"].read():
                await stdin.put(data)
        except ConnectionResetError:
            pass
        finally:
            stdin.end()

    async def read_sizes() -> None:
        rest = b""
        while data := await streams["resize"].read():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                sizes.put(line)

    out = streams["stdout"].write if requested.stdout else _discard
    err = streams["stderr"].write if requested.stderr else out if requested.tty else _discard
    readers = [asyncio.ensure_future(read_stdin())] if requested.stdin else []
    readers += [asyncio.ensure_future(read_sizes())] if requested.tty else []
    try:
        return await _run_to_status(requested, _CommandStreams(stdin if requested.stdin else None, out, err, sizes))
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
