"""The options of the server."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from allotment.errors import InputError

#: Characters that need no escape in an address, and no segment that a browser would resolve.
_BASE_PATH: Final = re.compile(r"(/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)*")


def base_path(text: str) -> str:
    """Return the beginning of addresses without a slash at its end. Raises InputError.

    >>> base_path("/tools/allotment/"), base_path("/"), base_path("")
    ('/tools/allotment', '', '')
    """
    found = text.rstrip("/")
    if not _BASE_PATH.fullmatch(found):
        raise InputError(f"--base-path: expected a path such as /allotment, found {text!r}")
    return found


@dataclass(frozen=True, slots=True)
class WebOptions:
    """``port``: 0 selects a free one. ``certificate`` and ``key``: PEM files, for TLS.

    ``allowed_hosts``: further names in the Host header than ``localhost`` and IP addresses, which no other site can
    take over; ``*`` allows all. ``allowed_origins``: sites whose scripts may read answers, such as
    ``http://localhost:4466``. ``in_cluster``: visitors send a token of the cluster and see what it may read; otherwise
    all requests need ``token``, by default a random one. ``catalog``: providers and files with prices, as for
    `allotment.plan`. ``base_path``: the beginning of all addresses, as `base_path` returns it: ``/allotment`` if a
    proxy serves the page below https://example.com/allotment, whether or not it removes that from the requests.
    """

    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    in_cluster: bool = False
    token: str = ""
    catalog: tuple[str, ...] = ()
    base_path: str = ""
