"""How a component runs, as its command line says it. Every value has a meaning; nothing is read from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from allotment.cluster.election import USUAL, Terms


class Address(NamedTuple):
    """Where something listens; port 0 is any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Leading(NamedTuple):
    """Leader election. ``identity``: of this copy; ``namespace``: where the Lease is."""

    identity: str
    namespace: str = "kube-system"
    terms: Terms = USUAL


class Serving(NamedTuple):
    """Probes and metrics.

    ``health`` answers ``/livez``, ``/readyz`` and ``/healthz`` in plain text, with nothing that is worth hiding.
    ``metrics`` answers ``/metrics``: as it is on loopback, elsewhere over TLS (``certificate`` and ``key``, PEM) and
    only to those whose token the cluster knows and lets get ``/metrics``. None: not served.
    """

    health: Address | None = None
    metrics: Address | None = None
    certificate: Path | None = None
    key: Path | None = None


class Settings(NamedTuple):
    """``leading`` is None where one copy runs. ``traces`` is an OTLP/HTTP endpoint, or empty."""

    serving: Serving = Serving()
    leading: Leading | None = None
    logs: Literal["text", "json"] = "text"
    verbose: bool = False
    traces: str = ""
