"""Streaming responses: pieces are pulled only as fast as the client reads, and joined where several are ready.

A watch under load has many events ready, and one write for each would cost more than creating them. An iterator cannot
be queried whether its next item is ready; so it is stepped manually, and where it would wait, buffered output is sent
first and the same step is awaited afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Generator
from typing import Any, Protocol

#: Large enough to amortize a system call, small enough to share the event loop.
BATCH = 64 * 1024


class _Rest(Awaitable[Any]):
    """The rest of a started step, which waits for ``waiting``."""

    def __init__(self, step: Generator[Any, Any, Any], waiting: Any) -> None:
        self._step = step
        self._waiting = waiting

    def __await__(self) -> Generator[Any, Any, Any]:
        while True:
            try:
                sent = yield self._waiting
            except BaseException as error:  # noqa: BLE001 - cancellation, too, is the step's to see
                try:
                    self._waiting = self._step.throw(error)
                except StopIteration as done:
                    return done.value
            else:
                try:
                    self._waiting = self._step.send(sent)
                except StopIteration as done:
                    return done.value


class Sink(Protocol):
    """A byte sink: ``write`` never waits, ``drained`` waits while the client does not read."""

    def write(self, data: bytes) -> None:
        """Write bytes without waiting."""
        ...

    async def drained(self) -> None:
        """Wait until the buffer has room."""
        ...


async def pump(pieces: AsyncIterator[bytes], head: bytes, chunked: bool, sink: Sink) -> None:
    """Write a head and all pieces, but not the final chunk."""
    batch = [head]
    size = 0
    while True:
        step: Any = pieces.__anext__().__await__()
        try:
            waiting = step.send(None)
        except StopIteration as ready:
            piece = ready.value
        except StopAsyncIteration:
            break
        else:
            # While a step is suspended only the step itself may be awaited: the iterator could not be closed.
            if batch:
                sink.write(b"".join(batch))
                batch.clear()
                size = 0
            try:
                piece = await _Rest(step, waiting)
            except StopAsyncIteration:
                break
            await sink.drained()
        if piece:
            if chunked:
                batch += (b"%x\r\n" % len(piece), piece, b"\r\n")
            else:
                batch.append(piece)
            size += len(piece)
        if size >= BATCH:
            sink.write(b"".join(batch))
            batch.clear()
            size = 0
            await asyncio.sleep(0)  # a source that is always ready must not starve other tasks
            await sink.drained()
    if batch:
        sink.write(b"".join(batch))
