"""Authentication over plain HTTP: requests without credentials act as the administrator.

kubectl sends no credentials without TLS, whatever its configuration contains, so anonymous requests need these
permissions. A browser on the same machine can also reach the port on behalf of any page: such requests carry an Origin
header or, after DNS rebinding, a foreign Host header. They are rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from ipaddress import ip_address
from urllib.parse import urlsplit

from allotment.apiserver.access.authentication import ANONYMOUS, Authenticator
from allotment.apiserver.http_messages import Request
from allotment.apiserver.kinds.kind import Authorize, StoreReader, User
from allotment.cluster.errors import StatusError
from allotment.model.validation.errors import failure_status


class AnonymousAdmin(Authenticator):
    """Authenticates anonymous requests as the administrator. ``host``: the listen address, accepted as a host name."""

    def __init__(
        self, reader: StoreReader, *, clock: Callable[[], datetime], key: bytes, authorize: Authorize,
        administrator: User, host: str,
    ) -> None:  # fmt: skip
        super().__init__(reader, clock=clock, key=key, authorize=authorize)
        self._administrator = administrator
        self._host = host

    def authenticate(self, request: Request) -> User | None:
        """The administrator for anonymous requests. Raises StatusError 403 for foreign web pages."""
        user = super().authenticate(request)
        if user != ANONYMOUS:
            return user
        stranger = _stranger(request.headers, self._host)
        if stranger:
            message = f"forbidden: over plain HTTP, this lab rejects requests from {stranger}"
            raise StatusError(failure_status(403, "Forbidden", message))
        return self._administrator


def _stranger(headers: Mapping[str, str], own: str) -> str:
    """The foreign origin or host of a request; empty if it comes from a local program."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if origin is not None and origin.partition("://")[2] != host:
        return f"web pages with the origin {origin}"
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return f"clients that use the host name {host}"
    # A name without dots is local to this machine or its network, not a web page's.
    if "." not in name or name == own.lower() or name.endswith(".localhost") or _is_address(name):
        return ""
    return f"clients that use the host name {name}"


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
