"""The ``log`` subresource: a container's log as plain text, optionally followed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

from allotment.apiserver.http_messages import AnyResponse, Request, Response, Streaming
from allotment.apiserver.request_options import boolean, first, integer, parse_query
from allotment.apiserver.streams.container_lookup import (
    bad_request,
    check_log_available,
    container_named,
    is_bound,
    kubelets_for,
    name_of,
)
from allotment.apiserver.streams.kubelets import Kubelets
from allotment.cluster.errors import StatusError
from allotment.model.times import TimeError, canonical
from allotment.model.trees import Tree
from allotment.model.validation.errors import FieldError, forbidden, invalid, invalid_status, not_supported

_UNCACHED = ("Cache-Control", "no-cache, private")
_STREAMS = ("All", "Stderr", "Stdout")


async def logs(request: Request, pod: Tree, kubelets: Kubelets | None) -> AnyResponse:
    """Handle a log request."""
    query = parse_query(request.query)
    tail, limit = integer(query, "tailLines"), integer(query, "limitBytes")
    seconds, since = integer(query, "sinceSeconds"), _moment(first(query, "sinceTime"))
    _check(name_of(pod), tail, limit, seconds, since, first(query, "stream") or "All")
    container = container_named(pod, first(query, "container"))
    if not is_bound(pod):
        return Response(204, (_UNCACHED,), b"")
    nodes = kubelets_for(pod, kubelets)
    previous = boolean(query, "previous")
    check_log_available(pod, container, previous=previous)
    lines = nodes.logs(
        pod, container, follow=boolean(query, "follow"), previous=previous, timestamps=boolean(query, "timestamps"),
        tail=tail, since=since, since_seconds=seconds,
    )  # fmt: skip
    pieces = lines if limit is None else _cut(lines, limit)
    return Streaming(200, (_UNCACHED, ("Content-Type", "text/plain")), pieces)


def _check(
    name: str, tail: int | None, limit: int | None, seconds: int | None, since: datetime | None, stream: str
) -> None:
    errors: list[FieldError] = []
    if tail is not None and tail < 0:
        errors.append(invalid("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        errors.append(invalid("limitBytes", limit, "must be greater than 0"))
    if seconds is not None and since is not None:
        errors.append(forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif seconds is not None and seconds < 1:
        errors.append(invalid("sinceSeconds", seconds, "must be greater than 0"))
    if stream not in _STREAMS:
        errors.append(not_supported("stream", stream, _STREAMS))
    elif stream != "All" and tail is not None:
        errors.append(forbidden("", "`tailLines` and specific `stream` are mutually exclusive for now"))
    if errors:
        raise StatusError(invalid_status("", "PodLogOptions", name, errors))


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    try:
        utc = canonical(text)
    except TimeError as error:
        raise bad_request(str(error)) from None
    return datetime.fromisoformat(utc) if utc else None


async def _cut(lines: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    """Truncate to a number of bytes, possibly within a line."""
    try:
        async for piece in lines:
            yield piece[:limit]
            limit -= len(piece)
            if limit <= 0:
                return
    finally:
        if (aclose := getattr(lines, "aclose", None)) is not None:
            await aclose()
