"""What a kubelet answers about a pod that runs on it: logs, commands, streams and ports.

A simulated application speaks HTTP on the ports that its containers declare (on any, if they declare none): one page
that says who answers and with which devices.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from allotment.cluster.errors import StatusError
from allotment.node.containers import Container
from allotment.node.journal import Journal, Line
from allotment.node.pod import PodRun
from allotment.node.programs import execute
from allotment.node.shell import NOT_FOUND, Streams, nothing

Tree = dict[str, Any]
Write = Callable[[bytes], Awaitable[None]]

#: The most that a client may send ahead of an empty line.
_LONGEST_HEAD: Final = 64 * 1024
#: Answers that wait for a client who asks and does not read; then it is not listened to.
_WAITING: Final = 64


def _failure(code: int, reason: str, message: str) -> StatusError:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    return StatusError({**status, "reason": reason, "code": code})


def running(run: PodRun | None, pod: Tree, name: str) -> Container:
    """A container that has run. Raises StatusError, in a kubelet's words, for one that has not."""
    container = run.find(name) if run else None
    if container is None or container.started is None:
        where = pod["metadata"]["name"]
        told = f'container "{name}" in pod "{where}" is waiting to start: ContainerCreating'
        raise _failure(400, "BadRequest", told)
    return container


async def logs(
    container: Container, *, follow: bool, previous: bool, timestamps: bool, tail: int | None,
    since: datetime | None, since_seconds: int | None,
) -> AsyncIterator[bytes]:  # fmt: skip
    """What a container printed, in whole lines; with ``follow``, until it ends."""
    journal: Journal | None = container.journal_before if previous else container.journal
    if journal is None:
        raise _failure(400, "BadRequest", f'previous terminated container "{container.name}" not found')
    moment = container.inside.clock.moment()

    def text(lines: Sequence[Line]) -> bytes:
        wanted = (
            line
            for line in lines
            if (since is None or line.moment >= since)
            and (since_seconds is None or (moment - line.moment).total_seconds() <= since_seconds)
        )
        stamp = "{:%Y-%m-%dT%H:%M:%S.%f}000Z ".format
        return b"".join((stamp(line.moment).encode() if timestamps else b"") + line.text + b"\n" for line in wanted)

    known = journal.lines(tail)
    if shown := text(known):
        yield shown
    if follow:
        after = known[-1].number if known else journal.number
        async for lines in journal.follow(after):
            if shown := text(lines):
                yield shown


async def command(
    container: Container, words: Sequence[str], *, stdin: AsyncIterator[bytes] | None, stdout: Write, stderr: Write
) -> int:
    """Run a command beside the container's own; its exit code."""
    streams = Streams(nothing if stdin is None else _reading(stdin), stdout, stderr)
    code = await execute(list(words), container.environment, streams, container.inside)
    if code is None:
        await stderr(f'exec: "{words[0]}": executable file not found in $PATH\n'.encode())
        return NOT_FOUND
    return code


async def attach(container: Container, stdout: Write) -> int:
    """Share what the container prints from now on; its exit code."""
    async for lines in container.journal.follow(container.journal.number):
        await stdout(b"".join(line.text + b"\n" for line in lines))
    return container.ended.code if container.ended else 0


def _reading(stdin: AsyncIterator[bytes]) -> Callable[[], Awaitable[bytes]]:
    async def read() -> bytes:
        async for data in stdin:
            if data:
                return data
        return b""

    return read


class Page:
    """A connection to a simulated application."""

    def __init__(self, text: str) -> None:
        self._body = text.encode()
        self._got = b""
        self._answers: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)
        self._closed = False

    async def read(self) -> bytes:
        """The next answer; empty at the end."""
        if self._closed and self._answers.empty():
            return b""
        return await self._answers.get()

    async def write(self, data: bytes) -> None:
        """Take a request; one without a body is whole at its empty line."""
        self._got += data
        while b"\r\n\r\n" in self._got:
            head, _, self._got = self._got.partition(b"\r\n\r\n")
            last = b"connection: close" in head.lower() or not head.startswith((b"GET ", b"HEAD "))
            told = b"close" if last else b"keep-alive"
            await self._answers.put(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: " + told
                + b"\r\nContent-Length: " + str(len(self._body)).encode() + b"\r\n\r\n"
                + (b"" if head.startswith(b"HEAD ") else self._body)
            )  # fmt: skip
            if last:
                await self.write_eof()
        if len(self._got) > _LONGEST_HEAD:
            await self.write_eof()

    async def write_eof(self) -> None:
        """The other side sends no more: neither do we, after what is asked."""
        if not self._closed:
            self._closed = True
            await self._answers.put(b"")

    async def close(self) -> None:
        """Let go of it."""
        self._closed = True
        with suppress(asyncio.QueueFull):  # nobody waits for more who has so much to read
            self._answers.put_nowait(b"")


def page(run: PodRun | None, pod: Tree, port: int) -> Page:
    """Connect to a port. Raises ConnectionRefusedError when nobody listens."""
    mains = run.mains if run else []
    declared = {p.get("containerPort") for c in pod["spec"]["containers"] for p in c.get("ports") or ()}
    if not any(container.running for container in mains) or (declared and port not in declared):
        raise ConnectionRefusedError(f"connect: connection refused by port {port} of {pod['metadata']['name']}")
    given = [f"{d.product} ({d.pool}/{d.name})" for container in mains for d in container.inside.devices]
    told = ", ".join(dict.fromkeys(given)) or "none"
    return Page(f"pod: {pod['metadata']['name']}\nnode: {pod['spec'].get('nodeName')}\ndevices: {told}\n")
