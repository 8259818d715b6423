"""Which endpoints a component has: probes in the open, metrics only to those who may have them."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import TimeoutError as TooLate
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

_KEPT_SECONDS: Final = 10.0
_MOST_KEPT: Final = 1024
_AT_ONCE: Final = 4

#: unknown: nobody knows the token. unsure: the cluster did not say.
Verdict = Literal["allowed", "forbidden", "unknown", "unsure"]


class MetricsAuthorizer:
    """Asks a cluster on behalf of those who come with tokens."""

    def __init__(self, client: Client, path: str = "/metrics", kept: float = _KEPT_SECONDS) -> None:
        self._client = client
        self._path = path
        self._kept = kept
        self._known: OrderedDict[bytes, tuple[float, Verdict]] = OrderedDict()
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def review(self, token: str) -> Verdict:
        """Whether who has the token may get the path."""
        key = hashlib.sha256(token.encode()).digest()  # tokens themselves are not kept
        async with self._turns:
            until, verdict = self._known.get(key, (0.0, "unsure"))
            if time.monotonic() < until:
                return verdict
            try:
                verdict = await self._asked(token)
            except (StatusError, Unreachable):
                return "unsure"
            self._known[key] = time.monotonic() + self._kept, verdict
            self._known.move_to_end(key)
            if len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)
            return verdict

    async def _asked(self, token: str) -> Verdict:
        review = {"kind": "TokenReview", "apiVersion": _TOKENS.api_version, "spec": {"token": token}}
        told = (await self._client.create(_TOKENS, review)).get("status") or {}
        if not told.get("authenticated"):
            return "unknown"
        user = told.get("user") or {}
        spec = {
            "user": user.get("username", ""), "groups": user.get("groups") or [], "uid": user.get("uid", ""),
            "extra": user.get("extra") or {}, "nonResourceAttributes": {"path": self._path, "verb": "get"},
        }  # fmt: skip
        review = {"kind": "SubjectAccessReview", "apiVersion": _ACCESS.api_version, "spec": spec}
        answer = (await self._client.create(_ACCESS, review)).get("status") or {}
        return "allowed" if answer.get("allowed") else "forbidden"


log = logging.getLogger(__name__)

#: A scrape gives up after so long, so an answer later than that is none.
_REVIEW_SECONDS: Final = 8.0
_LOOK_SECONDS: Final = 2.0
_REFUSALS: Final = {
    "unknown": text(HTTPStatus.UNAUTHORIZED, "the cluster does not know this token\n")._replace(authenticate=True),
    "forbidden": text(HTTPStatus.FORBIDDEN, "this user may not get /metrics\n"),
    "unsure": text(HTTPStatus.SERVICE_UNAVAILABLE, "the cluster could not verify this token\n"),
}


@contextmanager
def serve_endpoints(settings: EndpointSettings, health: Health, metrics: Metrics | None, client: Client) -> Iterator[None]:
    """Answer probes and scrapes. Raises Unusable and UnusableCertificate."""
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
        raise AddressUnavailable(f"{settings.metrics}: other machines can reach it, so a certificate and its key are required")
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
        # A loop that stands still is a thing to measure: then what it was before is told, beside all others.
        with suppress(TooLate):
            asyncio.run_coroutine_threadsafe(metrics.update(), loop).result(_LOOK_SECONDS)
        return HttpResponse(HTTPStatus.OK, *metrics.exposition(headers.get("Accept", "")))

    return handle


def _guarded(handle: RequestHandler, access: MetricsAuthorizer, loop: asyncio.AbstractEventLoop) -> RequestHandler:
    """The same, for those whom the cluster lets."""

    def guarded(path: str, query: str, headers: Message) -> HttpResponse:
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return text(HTTPStatus.UNAUTHORIZED, "a bearer token is required\n")._replace(authenticate=True)
        asked = asyncio.run_coroutine_threadsafe(access.review(token.strip()), loop)
        try:
            verdict = asked.result(_REVIEW_SECONDS)
        except TooLate:
            asked.cancel()
            verdict = "unsure"
        return handle(path, query, headers) if verdict == "allowed" else _REFUSALS[verdict]

    return guarded
