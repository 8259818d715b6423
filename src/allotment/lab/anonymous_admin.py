"""Who sends a request over plain HTTP: the administrator, if it does not say.

kubectl sends no credentials without TLS, whatever its configuration says, so without this nothing could be done. But a
browser on the same machine reaches the port, too, on behalf of any page: such requests name where they come from
(Origin), or, if the page had its own name point to this machine, a host that is not ours. Those are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from ipaddress import ip_address
from urllib.parse import urlsplit

from allotment.apiserver.access.authentication import ANONYMOUS, Authenticator, Authorize
from allotment.apiserver.http_messages import Request
from allotment.apiserver.kinds.kind import StoreReader, User
from allotment.cluster.errors import StatusError
from allotment.model.validation.errors import failure_status


class AnonymousAdmin(Authenticator):
    """See the module. ``host`` is the address that was asked for: as a name it is ours."""

    def __init__(
        self, reader: StoreReader, *, clock: Callable[[], datetime], key: bytes, authorize: Authorize, administrator: User,
        host: str,
    ) -> None:  # fmt: skip
        super().__init__(reader, clock=clock, key=key, authorize=authorize)
        self._administrator = administrator
        self._host = host

    def sender(self, request: Request) -> User | None:
        """The administrator instead of nobody; StatusError 403 for pages of others."""
        user = super().sender(request)
        if user != ANONYMOUS:
            return user
        stranger = _stranger(request.headers, self._host)
        if stranger:
            message = f"forbidden: over plain HTTP this lab answers to its own address only, not to {stranger}"
            raise StatusError(failure_status(403, "Forbidden", message))
        return self._administrator


def _stranger(headers: Mapping[str, str], own: str) -> str:
    """From where else a request comes; empty if from a program of this machine or network."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if origin is not None and origin.partition("://")[2] != host:
        return f"a page of {origin}"
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return f"the host {host}"
    # A name without dots is no page's: it means something on this machine or in its network only.
    if "." not in name or name == own.lower() or name.endswith(".localhost") or _is_address(name):
        return ""
    return f"the host {name}"


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
