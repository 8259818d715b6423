"""The revisions of the cluster: a stream that tells pages about each new one (Server-Sent Events), and the earlier ones
of a lab, for its history."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from typing import Final

import msgspec

from allotment.watched.cluster import WatchedCluster
from allotment.watched.view import ClusterView
from allotment.web.problems import ProblemError

#: Seconds between two messages at most: proxies close silent streams, and the visitor's rights are verified again.
_SILENCE: Final = 15.0
#: Milliseconds after which a browser connects again.
_RETRY: Final = 1000
#: Views that are kept, at most, and objects in all of them together. They share all objects that do not change.
_KEPT: Final = 300
_OBJECTS: Final = 1_000_000


async def revisions(
    watched: WatchedCluster, verify: Callable[[], Awaitable[object]], stopping: asyncio.Event
) -> AsyncGenerator[bytes, None]:
    """Yield the present revision and each later one that the client is fast enough for, until ``verify`` raises
    ProblemError or the server stops."""
    loop = asyncio.get_running_loop()
    view, verified = watched.view(), loop.time()
    yield b"retry: %d\n%s" % (_RETRY, _message(view))
    stop = asyncio.ensure_future(stopping.wait())
    try:
        while not stopping.is_set():
            newer = asyncio.ensure_future(watched.changed(view.revision))
            try:
                await asyncio.wait((newer, stop), timeout=_SILENCE, return_when=asyncio.FIRST_COMPLETED)
                if loop.time() - verified >= _SILENCE:
                    await verify()
                    verified = loop.time()
                if newer.done():
                    view = newer.result()
                    yield _message(view)
                else:
                    yield b": the stream is alive\n\n"
            finally:
                newer.cancel()
    except ProblemError:
        return  # the next request says why
    finally:
        stop.cancel()


def _message(view: ClusterView) -> bytes:
    state = {
        "revision": view.revision, "connected": view.connected, "seenAt": view.seen_at, "error": view.error,
    }  # fmt: skip
    return b"data: %s\n\n" % msgspec.json.encode(state)


class Past:
    """Earlier views, oldest first."""

    def __init__(self, watched: WatchedCluster) -> None:
        self._watched = watched
        self._views: deque[ClusterView] = deque()

    def before(self, view: ClusterView) -> tuple[ClusterView, ...]:
        """Return the views that are older than one."""
        return tuple(each for each in self._views if each.revision < view.revision)

    async def run(self) -> None:
        """Keep the views of a lab until cancelled; a lab that does not respond shows nothing new."""
        view = self._watched.view()
        while True:
            if view.connected and view.place == "lab":
                self._views.append(replace(view))  # without what was derived from it
                most = min(_KEPT, max(_OBJECTS // len(view.inputs.cluster), 1))
                while len(self._views) > most:
                    self._views.popleft()
            view = await self._watched.changed(view.revision)
