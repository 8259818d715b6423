"""Conditions for every request, and headers of every response, so that other sites cannot use the page.

A request names a host that is not another site's name for this machine (DNS rebinding), and comes from no other site
(``Origin``). A body is limited. Every response, also of errors, forbids browsers to run scripts that are not the
page's own, and to show it inside of other pages.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Collection, Iterator
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from allotment.queries.problems import internal
from allotment.web.problems import ProblemError, problem_response, rejected

log = logging.getLogger(__name__)

#: The largest body of a request, in bytes.
MAX_BODY: Final = 5 * 1024 * 1024
#: Seconds within which each part of a body must arrive.
_PART_SECONDS: Final = 30.0

_POLICY: Final = "; ".join((
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' data:",
    "font-src 'self'", "manifest-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'",
))  # fmt: skip
_HEADERS: Final = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
#: Methods that change nothing, which other sites may cause a browser to use; it does not show them the response.
_SAFE: Final = ("GET", "HEAD")
_LOCAL: Final = "localhost"


class Protection:
    """The outermost layer of the server. ``hosts`` and ``origins`` are those of `WebOptions`."""

    def __init__(self, app: ASGIApp, hosts: Collection[str], origins: Collection[str]) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no WebSocket is served
            return
        started = False
        headers = Headers(scope=scope)
        origin = headers.get("origin", "").lower()

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                answer = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in self._added(origin):
                    answer[name] = value
            await send(message)

        try:
            self._check(scope["method"], headers, origin)
            if scope["method"] == "OPTIONS" and origin in self._origins:
                await Response(status_code=204, headers=_preflight())(scope, receive, guarded)
                return
            await self._app(scope, _limited(receive), guarded)
        except ProblemError as error:
            if not started:
                await problem_response(error.problem, scope["path"], error.headers)(scope, receive, guarded)
        except Exception as error:
            if started:  # an error of an endpoint, which has been logged
                return
            log.exception("%s %s: internal error", scope["method"], scope["path"])
            await problem_response(internal(error), scope["path"])(scope, receive, guarded)

    def _added(self, origin: str) -> Iterator[tuple[str, str]]:
        yield from _HEADERS
        if origin and origin in self._origins:
            yield "Access-Control-Allow-Origin", origin
            yield "Vary", "Accept, Authorization, Cookie, Origin"

    def _check(self, method: str, headers: Headers, origin: str) -> None:
        """Raise ProblemError for a request that another site may have caused, or with too large a body."""
        host = headers.get("host", "")
        if not self._is_own(host):
            hint = f"use an address of this machine, or start the server with --allowed-host {_name_of(host) or 'NAME'}"
            raise rejected(421, "host", "Unknown host", f"the Host header names {host or 'no host'!r}", hint)
        if origin and origin not in self._origins and not _is_site(origin, host.lower()):
            raise rejected(403, "origin", "Another site", f"the request comes from {origin!r}")
        is_foreign = headers.get("sec-fetch-site", "") in ("cross-site", "same-site") and origin not in self._origins
        if is_foreign and (method not in _SAFE or headers.get("sec-fetch-mode", "") not in ("navigate", "")):
            raise rejected(403, "origin", "Another site", "the request comes from another site")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY:
            raise _too_large()

    def _is_own(self, host: str) -> bool:
        name = _name_of(host)
        if name in self._hosts or "*" in self._hosts or name == _LOCAL or name.endswith(f".{_LOCAL}"):
            return bool(name)
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _is_site(origin: str, host: str) -> bool:
    """Whether an origin is a site of this host and port. No text of an origin is an error: anyone can send one."""
    return origin in (f"http://{host}", f"https://{host}")


def _name_of(host: str) -> str:
    """The name in a Host header, in lower case; empty if it is malformed.

    >>> _name_of("[::1]:80"), _name_of("Localhost:8780"), _name_of("a@b")
    ('::1', 'localhost', '')
    """
    try:
        parts = urlsplit(f"//{host}")
        has_port = parts.port is None or parts.port >= 0
    except ValueError:
        return ""
    is_plain = parts.netloc == host and "@" not in host and not parts.path and not parts.query and not parts.fragment
    return (parts.hostname or "") if is_plain and has_port else ""


def _limited(receive: Receive) -> Receive:
    """Limit a body whose length is not stated, and the time that its sender takes."""
    size, is_complete = 0, False

    async def limited() -> Message:
        nonlocal size, is_complete
        try:
            async with asyncio.timeout(None if is_complete else _PART_SECONDS):
                message = await receive()
        except TimeoutError:
            raise rejected(408, "timeout", "The request is too slow", "its body did not arrive in time") from None
        if message["type"] == "http.request":
            is_complete = not message.get("more_body", False)
            size += len(message.get("body", b""))
            if size > MAX_BODY:
                raise _too_large()
        return message

    return limited


def _too_large() -> ProblemError:
    detail = f"expected at most {MAX_BODY >> 20} MiB"
    return rejected(413, "too-large", "The request is too large", detail, "send fewer manifests at a time")


def _preflight() -> dict[str, str]:
    return {
        "Access-Control-Allow-Methods": "GET, POST",
        "Access-Control-Allow-Headers": "Authorization, Content-Type, Accept, If-None-Match",
        "Access-Control-Max-Age": "600",
    }
