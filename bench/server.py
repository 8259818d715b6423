"""An API server to measure, and how to connect to it."""

from __future__ import annotations

import ssl
from typing import NamedTuple

from bench.http_load import context


class BenchServer(NamedTuple):
    """Its address and the client's credentials: a token, or a client certificate (PEM files)."""

    host: str
    port: int
    tls: bool
    token: str = ""
    certificate: str = ""
    key: str = ""

    @property
    def url(self) -> str:
        """The root of its paths."""
        return f"http{'s' if self.tls else ''}://{self.host}:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        named = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return {**named, "Content-Type": "application/json", "Accept": "application/json"}

    def context(self) -> ssl.SSLContext | None:
        """The TLS context; the server is not verified."""
        return context("", self.certificate, self.key) if self.tls else None
