"""The connections of the server: those that send no request are closed, and all end when the server ends.

uvicorn limits only the time between two requests. Without further limits, anyone who can connect could use up the
server's file descriptors, and a computation would keep a server that ends waiting.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from allotment.queries.problems import problem_of
from allotment.time_limits import StoppedError
from allotment.web.problems import problem_response

#: Seconds within which the headers of a request must arrive, from their first byte; and those of the first request,
#: from the connection.
HEADER_SECONDS: Final = 15.0
#: Seconds that requests in progress get when the server ends, less than the server waits for them.
_GRACE: Final = 1.0


class PromptConnection(H11Protocol):
    """A connection that is closed if the headers of a request do not arrive in time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of headers that have begun."""
        super().data_received(data)
        if self._has_no_request():
            self._wait()
        else:
            self._end_wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        super().connection_lost(exc)
        self._end_wait()

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEADER_SECONDS, self._close)

    def _end_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self._timer = None
        if self._has_no_request():
            self.transport.close()

    def _has_no_request(self) -> bool:
        # The cycle is None before the first request.
        return bool(getattr(self.cycle, "response_complete", True))


def ending_with(app: ASGIApp, stopping: asyncio.Event) -> ASGIApp:
    """Return an application whose requests end soon after ``stopping`` is set: with a problem, if nothing was sent."""

    async def ending(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        served = asyncio.ensure_future(app(scope, receive, noted))
        stopped = asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait((served, stopped), return_when=asyncio.FIRST_COMPLETED)
            if not served.done():
                await asyncio.wait((served,), timeout=_GRACE)
            if served.done():
                served.result()
                return
        finally:
            stopped.cancel()
            served.cancel()
        await asyncio.wait((served,))
        found = problem_of(StoppedError())
        if not started and found is not None:
            await problem_response(found, scope["path"])(scope, receive, send)

    return ending
