"""How much of the process one client may hold, and for how long."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """Bytes and seconds. The defaults suit one machine; the body's limit is the real server's, and clients know it."""

    head_bytes: int = 256 * 1024
    body_bytes: int = 3 * 1024 * 1024
    #: Of all bodies that are being received or answered, so that many clients cannot do what one must not.
    all_body_bytes: int = 256 * 1024 * 1024
    message_bytes: int = 16 * 1024 * 1024
    connections: int = 2000
    #: Requests of one connection that wait for their turn before its socket is no longer read.
    pipelined: int = 32
    head_seconds: float = 10
    body_seconds: float = 60
    #: Longer than the 90 s after which Go's clients give up an idle connection: the client should be the one to close.
    idle_seconds: float = 180
    #: A reader that takes nothing for so long has gone.
    stalled_seconds: float = 30
    handshake_seconds: float = 10
    #: After a refusal the client may still be sending; to close at once would reset the connection and lose the answer.
    linger_seconds: float = 1
    #: How often all of these are looked at.
    check_seconds: float = 1


DEFAULT = Limits()
