"""Streams: an answer's pieces, pulled only as fast as the reader takes them, joined where several are ready.

A watch under load has many events ready at once, and a write for each would cost more than making them. Whether the
next piece is ready can only be known by asking for it; so the iterator is stepped by hand, and where it would wait,
what was gathered goes out first and the very same step is awaited afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Generator
from typing import Any, Protocol

#: Enough for a system call to be cheap beside its contents, little enough to share the loop with others.
BATCH = 64 * 1024


class _Rest(Awaitable[Any]):
    """The rest of a step that has begun and waits for ``waiting``."""

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
    """Where bytes go: ``write`` never waits, ``drained`` waits while the reader does not read."""

    def write(self, data: bytes) -> None:
        """Hand over bytes."""
        ...

    async def drained(self) -> None:
        """Wait until there is room again."""
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
            # Nothing may be awaited while a step is under way but the step itself: it could not be closed.
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
            await asyncio.sleep(0)  # a source that is always ready must not starve the others
            await sink.drained()
    if batch:
        sink.write(b"".join(batch))
