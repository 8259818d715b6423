"""Limits for clients: memory, connections and deadlines."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """Bytes and seconds. The defaults suit one machine; the body limit is Kubernetes', which clients rely on."""

    head_bytes: int = 256 * 1024
    body_bytes: int = 3 * 1024 * 1024
    #: Total of all bodies being received or answered, which bounds the memory of many clients.
    all_body_bytes: int = 256 * 1024 * 1024
    #: The share of one client, so that others can send meanwhile.
    client_body_bytes: int = 128 * 1024 * 1024
    message_bytes: int = 16 * 1024 * 1024
    connections: int = 2000
    #: Pending requests of one connection before its socket is no longer read.
    pipelined: int = 32
    head_seconds: float = 10
    body_seconds: float = 60
    #: Longer than the 90 s after which Go's clients give up an idle connection: the client should be the one to close.
    idle_seconds: float = 180
    #: Seconds after which a client that does not read is disconnected.
    stalled_seconds: float = 30
    handshake_seconds: float = 10
    #: After a rejection the client may still be sending; an immediate close would lose the response.
    linger_seconds: float = 1
    #: Seconds between deadline checks.
    check_seconds: float = 1


DEFAULT = Limits()
