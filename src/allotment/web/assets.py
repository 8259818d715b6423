"""The page and its parts: HTML, scripts, styles and fonts, read once and served from memory.

Names contain a hash of the content, so that browsers keep them; the page itself is requested each time. Only
files of the folder are served, by exact name: no path is built from a request.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from allotment.web.compression import Content, compressed
from allotment.web.problems import rejected

_MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
_PAGE: Final = "index.html"
#: The best compression takes long, but is done once.
_LEVEL: Final = 9
_FOREVER: Final = "public, max-age=31536000, immutable"
_NOT_BUILT: Final = (
    b"<!doctype html><html lang=en><title>Allotment</title><p>This copy of Allotment has no page:"
    b" <code>make web</code> builds it. The answers for programs are at <code>/api/v1/openapi.json</code>."
)


@cache
def _assets() -> dict[str, Content]:
    folder = files("allotment.web") / "static"
    if not folder.is_dir():
        return {}
    found = (file for file in folder.iterdir() if file.is_file() and _suffix(file.name) in _MEDIA_TYPES)
    return {file.name: compressed(file.read_bytes(), _LEVEL) for file in found}


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]


@cache
def _page(base: str) -> Content:
    """The page with the addresses of its parts; scripts read the beginning of all addresses from it."""
    found = _assets().get(_PAGE, Content(_NOT_BUILT))
    if not base:
        return found
    meta = b'<head>\n    <meta name="allotment-base" content="%b">' % base.encode()
    plain = found.plain.replace(b'="/static/', b'="%b/static/' % base.encode()).replace(b"<head>", meta, 1)
    return compressed(plain, _LEVEL)


async def asset(request: Request) -> Response:
    """Return a part of the page. Raises ProblemError."""
    name = request.path_params["name"]
    found = _assets().get(name)
    if found is None:
        raise rejected(404, "not-found", "Not found", "there is no such file", "reload the page")
    return found.response(request, _MEDIA_TYPES[_suffix(name)], {"Cache-Control": _FOREVER, "Vary": "Accept-Encoding"})


def page(request: Request, status: int = 200) -> Response:
    """Return the page, which is the same at all addresses."""
    found = _page(request.scope.get("root_path", ""))
    headers = {"Cache-Control": "no-cache", "Vary": "Accept, Accept-Encoding"}
    return found.response(request, _MEDIA_TYPES[".html"], headers, status)
