"""The rights of requests: one token for a server of a single user, or the rights of each visitor's own token."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, Protocol

from starlette.datastructures import URL
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response

from allotment.screens.visibility import VisitorRights
from allotment.watched.view import ClusterView
from allotment.web.problems import ProblemError, rejected

_EVERYTHING: Final = VisitorRights()
#: Seconds that a browser keeps the token of a visitor.
_COOKIE_SECONDS: Final = 12 * 3600


class Access(Protocol):
    """Determines the rights of a request."""

    #: The cookie with the token.
    cookie: str

    async def rights(self, token: str, view: ClusterView) -> VisitorRights:
        """Return what the owner of a token may see. Raises ProblemError if the token is missing or not valid."""
        ...


class TokenAccess:
    """Access to everything with one token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        # Browsers send the cookies of a host to all of its ports.
        self.cookie = f"allotment-{hashlib.sha256(self._token).hexdigest()[:12]}"

    async def rights(self, token: str, view: ClusterView) -> VisitorRights:
        """Return the right to see everything. Raises ProblemError."""
        if not hmac.compare_digest(token.encode(), self._token):
            raise unauthorized("the token is wrong" if token else "a token is required")
        return _EVERYTHING


def unauthorized(detail: str, hint: str = "open the address that the server printed") -> ProblemError:
    """Return the error for a missing or wrong token."""
    return rejected(401, "unauthorized", "The token is missing or wrong", detail, hint)


def token_of(request: HTTPConnection, cookie: str) -> str:
    """Return the token of a request: a bearer token, or that of the cookie; may be empty."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and given.strip():
        return given.strip()
    return request.cookies.get(cookie, "")


def below_base(path: str, base: str) -> str:
    """Return a path without the beginning of all addresses, which a proxy may have removed.

    >>> below_base("/allotment/map", "/allotment"), below_base("/map", "/allotment"), below_base("/map", "")
    ('/map', '/map', '/map')
    """
    return path.removeprefix(base) if path.startswith(f"{base}/") else path


def without_token(request: Request, cookie: str) -> Response:
    """Return a redirect to the same address without its token, which the browser keeps as a cookie from then on."""
    base = request.scope.get("root_path", "")
    path = f"{base}/{below_base(request.url.path, base).lstrip('/')}"  # two slashes would lead to another host
    rest = URL(path).include_query_params(
        **{name: value for name, value in request.query_params.items() if name != "token"}
    )
    response = RedirectResponse(str(rest), status_code=303)
    keep_token(response, request, cookie, request.query_params["token"])
    return response


def keep_token(response: Response, request: Request, cookie: str, token: str) -> None:
    """Let the browser send a token with requests that the page makes; scripts cannot read it."""
    is_secure = request.url.scheme == "https"
    path = request.scope.get("root_path", "") or "/"
    response.set_cookie(
        cookie, token, max_age=_COOKIE_SECONDS, path=path, httponly=True, samesite="strict", secure=is_secure
    )
    response.headers["Cache-Control"] = "no-store"
