"""The options of the server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class WebOptions:
    """``port``: 0 selects a free one. ``certificate`` and ``key``: PEM files, for TLS.

    ``allowed_hosts``: further names in the Host header than ``localhost`` and IP addresses, which no other site can
    take over; ``*`` allows all. ``allowed_origins``: sites whose scripts may read answers, such as
    ``http://localhost:4466``. ``in_cluster``: visitors send a token of the cluster and see what it may read; otherwise
    all requests need ``token``, by default a random one. ``catalog``: providers and files with prices, as for
    `allotment.plan`.
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
