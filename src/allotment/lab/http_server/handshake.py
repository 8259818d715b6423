"""Upgrade negotiation: the protocol that a client requests, and the response that starts it."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Literal, NamedTuple

from allotment.apiserver.http_messages import Response, Upgrade
from allotment.lab.http_server.response_heads import bad_request, head, refusal

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3
#: Prefix of SPDY stream protocols in kubectl's WebSocket tunnels.
SPDY_PREFIX = "SPDY/3.1+"


class Agreed(NamedTuple):
    """An accepted upgrade: ``head`` is the whole 101 response."""

    form: Literal["websocket", "spdy"]
    protocol: str
    head: bytes


def agree(headers: Mapping[str, str], upgrade: Upgrade) -> Agreed | Response:
    """Negotiate the upgrade of a request; returns the upgrade or the error response."""
    wanted = headers.get("upgrade", "").lower()
    if "upgrade" not in headers.get("connection", "").lower():
        wanted = ""
    if wanted == "websocket":
        return _websocket(headers, upgrade.protocols)
    if wanted == "spdy/3.1":
        return _spdy(headers, upgrade.protocols)
    return bad_request("Upgrade request required")


def _websocket(headers: Mapping[str, str], known: tuple[str, ...]) -> Agreed | Response:
    if headers.get("sec-websocket-version") != "13":
        unknown = "the WebSocket version must be 13"
        return refusal(426, "BadRequest", unknown, (("Sec-WebSocket-Version", "13"),))
    key = headers.get("sec-websocket-key", "").strip()
    if not _is_key(key):
        return bad_request("Sec-WebSocket-Key must be 16 bytes in base64")
    offered = _names(headers.get("sec-websocket-protocol", ""))
    protocol = next((name for name in known if name in offered or (not name and not offered)), None)
    if protocol is None:
        return _no_protocol(offered, known)
    accept = base64.b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode()
    lines = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept)]
    if protocol:
        lines.append(("Sec-WebSocket-Protocol", protocol))
    return Agreed("websocket", protocol, head(101, tuple(lines)) + b"\r\n")


def _spdy(headers: Mapping[str, str], known: tuple[str, ...]) -> Agreed | Response:
    """Negotiate SPDY; stream protocols are listed in ``X-Stream-Protocol-Version`` headers."""
    offered = _names(headers.get("x-stream-protocol-version", ""))
    known = tuple(name.removeprefix(SPDY_PREFIX) for name in known if name.startswith(SPDY_PREFIX))
    protocol = next((name for name in known if name in offered), None)
    if protocol is None:
        return _no_protocol(offered, known)
    lines = (("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", protocol))
    return Agreed("spdy", SPDY_PREFIX + protocol, head(101, lines) + b"\r\n")


def _no_protocol(offered: list[str], known: tuple[str, ...]) -> Response:
    supported = ", ".join(name for name in known if name)
    message = f"unable to upgrade: unable to negotiate protocol: client supports [{', '.join(offered)}]"
    return refusal(403, "Forbidden", f"{message}, server accepts [{supported}]")


def _names(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == 16
    except (binascii.Error, ValueError):
        return False
