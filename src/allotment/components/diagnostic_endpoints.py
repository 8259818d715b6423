"""The HTTP endpoints of a component: public probes, and metrics for authorized users."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import ExitStack, contextmanager, suppress
from email.message import Message
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal

from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError, Unreachable
from allotment.components.certificate import Certificate
from allotment.components.health import Health
from allotment.components.http_server import AddressUnavailable, HttpResponse, RequestHandler, serve, text
from allotment.components.settings import EndpointSettings

if TYPE_CHECKING:
    from allotment.components.metrics import Metrics


_TOKENS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False)
_ACCESS: Final = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False)

_CACHE_SECONDS: Final = 10.0
_MAX_CACHED: Final = 1024
_CONCURRENCY: Final = 4

#: unknown: the token is not valid. unsure: the cluster did not respond.
Verdict = Literal["allowed", "forbidden", "unknown", "unsure"]


class MetricsAuthorizer:
    """Authorizes bearer tokens by TokenReview and SubjectAccessReview."""

    def __init__(self, client: Client, path: str = "/metrics", kept: float = _CACHE_SECONDS) -> None:
        self._client = client
        self._path = path
        self._kept = kept
        self._known: OrderedDict[bytes, tuple[float, Verdict]] = OrderedDict()
        self._semaphore = asyncio.Semaphore(_CONCURRENCY)

    async def review(self, token: str) -> Verdict:
        """Whether the user of the token may get the path."""
        key = hashlib.sha256(token.encode()).digest()  # tokens themselves are not stored
        async with self._semaphore:
            until, verdict = self._known.get(key, (0.0, "unsure"))
            if time.monotonic() < until:
                return verdict
            try:
                verdict = await self._request_review(token)
            except (StatusError, Unreachable):
                return "unsure"
            self._known[key] = time.monotonic() + self._kept, verdict
            self._known.move_to_end(key)
            if len(self._known) > _MAX_CACHED:
                self._known.popitem(last=False)
            return verdict

    async def _request_review(self, token: str) -> Verdict:
        review = {"kind": "TokenReview", "apiVersion": _TOKENS.api_version, "spec": {"token": token}}
        token_status = (await self._client.create(_TOKENS, review)).get("status") or {}
        if not token_status.get("authenticated"):
            return "unknown"
        user = token_status.get("user") or {}
        spec = {
            "user": user.get("username", ""), "groups": user.get("groups") or [], "uid": user.get("uid", ""),
            "extra": user.get("extra") or {}, "nonResourceAttributes": {"path": self._path, "verb": "get"},
        }  # fmt: skip
        review = {"kind": "SubjectAccessReview", "apiVersion": _ACCESS.api_version, "spec": spec}
        answer = (await self._client.create(_ACCESS, review)).get("status") or {}
        return "allowed" if answer.get("allowed") else "forbidden"


log = logging.getLogger(__name__)

#: Below the timeout of a scrape.
_REVIEW_SECONDS: Final = 8.0
_UPDATE_SECONDS: Final = 2.0
_REFUSALS: Final = {
    "unknown": text(HTTPStatus.UNAUTHORIZED, "the cluster does not accept this token\n")._replace(authenticate=True),
    "forbidden": text(HTTPStatus.FORBIDDEN, "this user is not allowed to get /metrics\n"),
    "unsure": text(HTTPStatus.SERVICE_UNAVAILABLE, "the cluster could not verify this token\n"),
}


@contextmanager
def serve_endpoints(
    settings: EndpointSettings, health: Health, metrics: Metrics | None, client: Client
) -> Iterator[None]:
    """Serve probes and metrics. Raises AddressUnavailable and CertificateError."""
    with ExitStack() as stack:
        if settings.health is not None:
            where = stack.enter_context(serve(settings.health, _probes(health)))
            log.info("health: http://%s/livez, /readyz, /healthz", where)
        if settings.metrics is not None and metrics is not None:
            certificate = None
            loop = asyncio.get_running_loop()
            handle = _scrapes(metrics, loop)
            if not settings.metrics.local:
                certificate = _certificate(settings)
                handle = _guarded(handle, MetricsAuthorizer(client), loop)
            where = stack.enter_context(serve(settings.metrics, handle, certificate))
            log.info("metrics: %s://%s/metrics", "http" if certificate is None else "https", where)
        yield


def _certificate(settings: EndpointSettings) -> Certificate:
    if settings.certificate is None or settings.key is None:
        raise AddressUnavailable(
            f"{settings.metrics}: other machines can reach this address, so a certificate and its key are required"
        )
    return Certificate(settings.certificate, settings.key)


def _probes(health: Health) -> RequestHandler:
    def handle(path: str, query: str, _: Message) -> HttpResponse:
        found = health.answer(path, query)
        return text(*found) if found is not None else text(HTTPStatus.NOT_FOUND, "/livez, /readyz, /healthz\n")

    return handle


def _scrapes(metrics: Metrics, loop: asyncio.AbstractEventLoop) -> RequestHandler:
    def handle(path: str, _: str, headers: Message) -> HttpResponse:
        if path != "/metrics":
            return text(HTTPStatus.NOT_FOUND, "/metrics\n")
        # If the event loop is blocked, the previous values are served.
        with suppress(FutureTimeout):
            asyncio.run_coroutine_threadsafe(metrics.update(), loop).result(_UPDATE_SECONDS)
        return HttpResponse(HTTPStatus.OK, *metrics.exposition(headers.get("Accept", "")))

    return handle


def _guarded(handle: RequestHandler, access: MetricsAuthorizer, loop: asyncio.AbstractEventLoop) -> RequestHandler:
    """Wrap a handler with authorization."""

    def guarded(path: str, query: str, headers: Message) -> HttpResponse:
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return text(HTTPStatus.UNAUTHORIZED, "a bearer token is required\n")._replace(authenticate=True)
        review = asyncio.run_coroutine_threadsafe(access.review(token.strip()), loop)
        try:
            verdict = review.result(_REVIEW_SECONDS)
        except FutureTimeout:
            review.cancel()
            verdict = "unsure"
        return handle(path, query, headers) if verdict == "allowed" else _REFUSALS[verdict]

    return guarded
