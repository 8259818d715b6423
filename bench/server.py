"""An API server to measure, and how to reach it."""

from __future__ import annotations

import ssl
from typing import NamedTuple

from bench.http_load import context


class Server(NamedTuple):
    """Where it is and who asks: by token, or by a client certificate (files in PEM)."""

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
        """What every request says."""
        named = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return {**named, "Content-Type": "application/json", "Accept": "application/json"}

    def context(self) -> ssl.SSLContext | None:
        """For connections with TLS; any server is believed."""
        return context("", self.certificate, self.key) if self.tls else None
