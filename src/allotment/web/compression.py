"""Contents of responses, compressed once for all requests."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

#: Below this size, in bytes, compression saves no packet.
_SMALL: Final = 1200
#: A higher level takes twice the time for a tenth of the size.
_LEVEL: Final = 5


class Content(NamedTuple):
    """``zipped``: the same with gzip, empty if that does not help."""

    plain: bytes
    zipped: bytes = b""

    def response(self, request: Request, media_type: str, headers: Mapping[str, str], status: int = 200) -> Response:
        """Return it as a response, compressed if the client accepts that."""
        accepted = {part.partition(";")[0].strip() for part in request.headers.get("accept-encoding", "").split(",")}
        if self.zipped and "gzip" in accepted:
            more = {**headers, "Content-Encoding": "gzip"}
            return Response(self.zipped, status, media_type=media_type, headers=more)
        return Response(self.plain, status, media_type=media_type, headers=dict(headers))


def compressed(plain: bytes, level: int = _LEVEL) -> Content:
    """Compress a content, the same way each time."""
    zipped = gzip.compress(plain, level, mtime=0) if len(plain) >= _SMALL else b""
    return Content(plain, zipped if len(zipped) < len(plain) else b"")
