"""Headers and bodies of responses: media types, warnings, and the Status of an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from allotment.apiserver.http_messages import AnyResponse, Request, Response, Upgrade
from allotment.apiserver.reads import representation
from allotment.apiserver.reads.representation import Form
from allotment.model.quoting import quote
from allotment.model.trees import Tree

Headers = tuple[tuple[str, str], ...]

_PRIVATE: Final = ("cache-control", "no-cache, private")
_JSON_HEADERS: Final[Headers] = (_PRIVATE, ("content-type", representation.JSON))
_HEADERS_BY_MEDIA: Final[Mapping[str, Headers]] = {
    representation.JSON: _JSON_HEADERS,
    representation.YAML: (_PRIVATE, ("content-type", representation.YAML)),
    representation.PROTOBUF: (_PRIVATE, ("content-type", representation.PROTOBUF)),
}
_WATCH_HEADERS: Final[Headers] = (_PRIVATE, ("content-type", f"{representation.PROTOBUF};stream=watch"))
#: Maximum characters of all warnings in a response, and of each warning when the total is exceeded.
_WARNINGS_MAX: Final = 4096
_WARNING_MAX: Final = 256


def response_headers(form: Form, warnings: Iterable[str] = ()) -> Headers:
    """The headers of an answer in a form."""
    headers = _HEADERS_BY_MEDIA[form.media]
    if not warnings:
        return headers
    return (*headers, *(("warning", f"299 - {quote(text)}") for text in _limited(warnings)))


def watch_headers(form: Form) -> Headers:
    """The headers of a stream of events in a form."""
    return _WATCH_HEADERS if form.media == representation.PROTOBUF else _JSON_HEADERS


def _limited(warnings: Iterable[str]) -> Iterable[str]:
    """Distinct warnings, truncated as upstream does when they exceed the header limit."""
    distinct = tuple(dict.fromkeys(warnings))
    if sum(map(len, distinct)) <= _WARNINGS_MAX:
        return distinct
    return [text[:_WARNING_MAX] for text in distinct][: _WARNINGS_MAX // _WARNING_MAX]


def status_response(status: Tree, request: Request, warnings: Iterable[str] = ()) -> Response:
    """A response that carries a Status."""
    form = representation.status_form(request.headers.get("accept", ""))
    headers = response_headers(form, warnings)
    seconds = (status.get("details") or {}).get("retryAfterSeconds")
    if seconds:
        headers = (*headers, ("retry-after", str(seconds)))
    body = b"" if request.method == "HEAD" else representation.encode_tree(status, form)
    return Response(int(status["code"]), headers, body)


def with_warning(response: AnyResponse, deprecation: str) -> AnyResponse:
    """The response with one more Warning header, placed first."""
    if isinstance(response, Upgrade):
        return response
    headers = response.headers
    return response._replace(headers=(*headers[:2], ("warning", f"299 - {quote(deprecation)}"), *headers[2:]))


def page_not_found() -> Response:
    """Go's plain-text 404, which upstream sends for unknown paths."""
    headers = (_PRIVATE, ("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff"))
    return Response(404, headers, b"404 page not found\n")
