"""Authentication by client certificate or bearer token, anonymous requests, and user impersonation.

Wrong credentials are rejected; a request without credentials gets the anonymous user. Whether that user is allowed to
do something is decided by authorization.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime
from operator import methodcaller
from typing import Final
from urllib.parse import unquote

from allotment.apiserver import api_errors, websockets
from allotment.apiserver.access import secret_tokens, tokens
from allotment.apiserver.http_messages import Request
from allotment.apiserver.kinds.kind import Authorize, StoreReader, User
from allotment.cluster.errors import StatusError
from allotment.model.quoting import quote
from allotment.model.validation.errors import failure_status

ANONYMOUS: Final = User("system:anonymous", ("system:unauthenticated",))
AUTHENTICATED_GROUP: Final = "system:authenticated"
_EXTRA_PREFIX: Final = "impersonate-extra-"
_is_impersonation_header: Final = methodcaller("startswith", "impersonate-")


class Authenticator:
    """Called with a request: return the user, or None for wrong credentials.

    Raises StatusError 403 if the user is not allowed to impersonate. ``static``: fixed tokens and their users. ``key``:
    signs service account tokens.
    """

    def __init__(
        self, reader: StoreReader, *, clock: Callable[[], datetime], key: bytes, authorize: Authorize,
        static: Mapping[str, User] | None = None,
    ) -> None:  # fmt: skip
        self.reader = reader
        self.clock = clock
        self.key = key
        #: Called with namespace and name of the Secret of each valid token that is stored in one.
        self.on_secret_token: Callable[[str, str], None] = _ignore_secret
        self._authorize = authorize
        # Keyed by digest, so that the time of a lookup reveals nothing about a token.
        self._static = {_digest(token): _with_authenticated_group(user) for token, user in (static or {}).items()}

    def __call__(self, request: Request) -> User | None:
        user = self.authenticate(request)
        if user is None or not any(map(_is_impersonation_header, request.headers)):
            return user
        return self._impersonate(user, request)

    def authenticate_token(self, token: str, audiences: tuple[str, ...] = (tokens.API_AUDIENCE,)) -> User | None:
        """Return the user of a bearer token, or None if the token is not valid."""
        user = self._static.get(_digest(token))
        if user is not None:
            return user
        claims = tokens.signed_claims(self.key, token)
        if claims is None:
            return None
        now = self.clock()
        if claims.get("iss") != secret_tokens.ISSUER:
            return tokens.verify(claims, now=now, reader=self.reader, audiences=audiences)
        user = secret_tokens.verify(token, claims, now=now, reader=self.reader, audiences=audiences)
        if user is not None:
            self.on_secret_token(*secret_tokens.secret_of(claims))
        return user

    def authenticate(self, request: Request) -> User | None:
        """Return the user who sent a request, before impersonation; None for wrong credentials."""
        if request.peer is not None and request.peer.name:
            return _with_authenticated_group(User(request.peer.name, request.peer.groups))
        scheme, _, token = request.headers.get("authorization", "").strip().partition(" ")
        in_header = token.strip() if scheme.lower() == "bearer" else ""
        given = [token for token in (in_header or None, websockets.subprotocol_token(request)) if token is not None]
        if not given:
            return ANONYMOUS
        return next(filter(None, map(self.authenticate_token, given)), None)

    def sender(self, request: Request) -> str:
        """Return the name of the user who sent a request, that of the anonymous user if it will be rejected."""
        try:
            return (self.authenticate(request) or ANONYMOUS).name
        except StatusError:
            return ANONYMOUS.name

    def _impersonate(self, user: User, request: Request) -> User:
        headers = request.headers
        name = headers.get("impersonate-user", "")
        if not name:  # a group alone would keep the sender and all its permissions
            raise api_errors.bad_request(
                "impersonating groups, UIDs or extras requires a user: the header Impersonate-User is missing"
            )
        groups = _header_values(headers.get("impersonate-group", ""))
        extra = {
            unquote(header.removeprefix(_EXTRA_PREFIX)): _header_values(value)
            for header, value in headers.items()
            if header.startswith(_EXTRA_PREFIX)
        }
        uid = headers.get("impersonate-uid", "")
        checks = [("", "users", "", "", name)]
        checks += [("", "groups", "", "", group) for group in groups]
        account = name.removeprefix(tokens.ACCOUNT_PREFIX).split(":") if name.startswith(tokens.ACCOUNT_PREFIX) else []
        if len(account) == 2:
            checks[0] = ("", "serviceaccounts", "", account[0], account[1])
            groups = groups or tokens.account_user(account[0], account[1]).groups
        checks += [("authentication.k8s.io", "uids", "", "", uid)] if uid else []
        checks += [
            ("authentication.k8s.io", "userextras", key, "", value) for key, values in extra.items() for value in values
        ]
        for group, resource, subresource, namespace, target in checks:
            reason = self._authorize(user, "impersonate", group, resource, subresource, namespace, target)
            if reason is not None:
                raise _impersonation_forbidden(group, resource, target, reason)
        if name != ANONYMOUS.name and AUTHENTICATED_GROUP not in groups:
            groups = (*groups, AUTHENTICATED_GROUP)
        return User(name, groups, uid, extra)


def _ignore_secret(namespace: str, name: str) -> None:
    """Do nothing."""


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


def _header_values(header: str) -> tuple[str, ...]:
    """The values of a header that occurs several times."""
    return tuple(filter(None, map(str.strip, header.split(","))))


def _with_authenticated_group(user: User) -> User:
    return user if AUTHENTICATED_GROUP in user.groups else user._replace(groups=(*user.groups, AUTHENTICATED_GROUP))


def _impersonation_forbidden(group: str, resource: str, name: str, reason: str) -> StatusError:
    qualified = f"{resource}.{group}" if group else resource
    details = {"name": name, "group": group, "kind": resource}
    message = f"{qualified} {quote(name)} is forbidden: {reason}"
    return StatusError(
        failure_status(403, "Forbidden", message, {key: value for key, value in details.items() if value})
    )
