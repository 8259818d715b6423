"""Who asks: by client certificate, by bearer token, or nobody in particular; and whom they speak for.

Wrong credentials are refused, missing ones make an anonymous user: what that one may do is authorization's matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime
from operator import methodcaller
from typing import Final, Protocol
from urllib.parse import unquote

from allotment.apiserver import api_errors
from allotment.apiserver.access import tokens
from allotment.apiserver.http_messages import Request
from allotment.apiserver.kinds.kind import Reader, User
from allotment.cluster.errors import StatusError
from allotment.model.quoting import quote
from allotment.model.validation.errors import failure_status

ANONYMOUS: Final = User("system:anonymous", ("system:unauthenticated",))
AUTHENTICATED: Final = "system:authenticated"
_EXTRA: Final = "impersonate-extra-"
_IMPERSONATE: Final = methodcaller("startswith", "impersonate-")


class Authorize(Protocol):
    """May this user do that: None, or why not."""

    def __call__(
        self, user: User, verb: str, group: str = "", resource: str = "", subresource: str = "", namespace: str = "",
        name: str = "", path: str = "",
    ) -> str | None:  # fmt: skip
        """Judge one request."""
        ...


class Authenticator:
    """Called with a request: the user, or None for wrong credentials; StatusError 403 for undue impersonation.

    ``static``: fixed tokens and whose they are. ``key``: what tokens of service accounts are signed with.
    """

    def __init__(
        self, reader: Reader, *, clock: Callable[[], datetime], key: bytes, authorize: Authorize,
        static: Mapping[str, User] | None = None,
    ) -> None:  # fmt: skip
        self.reader = reader
        self.clock = clock
        self.key = key
        self._authorize = authorize
        # By digest, so that how long a look-up takes tells nothing about a token.
        self._static = {_digest(token): _known(user) for token, user in (static or {}).items()}

    def __call__(self, request: Request) -> User | None:
        """Who sent a request."""
        user = self.sender(request)
        if user is None or not any(map(_IMPERSONATE, request.headers)):
            return user
        return self._impersonated(user, request)

    def of_token(self, token: str, audiences: tuple[str, ...] = (tokens.AUDIENCE,)) -> User | None:
        """Whose a bearer token is."""
        known = self._static.get(_digest(token))
        if known is not None:
            return known
        return tokens.read(self.key, token, now=self.clock(), reader=self.reader, audiences=audiences)

    def sender(self, request: Request) -> User | None:
        """Who sent a request, for whomever they speak; None for wrong credentials."""
        if request.peer is not None and request.peer.name:
            return _known(User(request.peer.name, request.peer.groups))
        scheme, _, token = request.headers.get("authorization", "").strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        return self.of_token(token.strip())

    def _impersonated(self, user: User, request: Request) -> User:
        headers = request.headers
        name = headers.get("impersonate-user", "")
        if not name:  # a group alone would leave the sender as he is, with all that he may
            raise api_errors.bad_request(
                "groups, uids and extras are impersonated with a user: Impersonate-User is missing"
            )
        groups = _listed(headers.get("impersonate-group", ""))
        extra = {
            unquote(header.removeprefix(_EXTRA)): _listed(value)
            for header, value in headers.items()
            if header.startswith(_EXTRA)
        }
        uid = headers.get("impersonate-uid", "")
        asked = [("", "users", "", "", name)]
        asked += [("", "groups", "", "", group) for group in groups]
        account = name.removeprefix(tokens.ACCOUNT_PREFIX).split(":") if name.startswith(tokens.ACCOUNT_PREFIX) else []
        if len(account) == 2:
            asked[0] = ("", "serviceaccounts", "", account[0], account[1])
            groups = groups or tokens.account_user(account[0], account[1]).groups
        asked += [("authentication.k8s.io", "uids", "", "", uid)] if uid else []
        asked += [
            ("authentication.k8s.io", "userextras", key, "", value) for key, values in extra.items() for value in values
        ]
        for group, resource, subresource, namespace, which in asked:
            why = self._authorize(user, "impersonate", group, resource, subresource, namespace, which)
            if why is not None:
                raise _refused(group, resource, which, why)
        if name != ANONYMOUS.name and AUTHENTICATED not in groups:
            groups = (*groups, AUTHENTICATED)
        return User(name, groups, uid, extra)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


def _listed(header: str) -> tuple[str, ...]:
    """The values of a header that came several times."""
    return tuple(filter(None, map(str.strip, header.split(","))))


def _known(user: User) -> User:
    return user if AUTHENTICATED in user.groups else user._replace(groups=(*user.groups, AUTHENTICATED))


def _refused(group: str, resource: str, name: str, why: str) -> StatusError:
    qualified = f"{resource}.{group}" if group else resource
    details = {"name": name, "group": group, "kind": resource}
    message = f"{qualified} {quote(name)} is forbidden: {why}"
    return StatusError(failure_status(403, "Forbidden", message, {key: value for key, value in details.items() if value}))
