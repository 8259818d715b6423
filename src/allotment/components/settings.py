"""How a component runs, as its command line says it. Every value has a meaning; nothing is read from elsewhere."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Literal, NamedTuple

from allotment.cluster.inspection.release import FeatureOverrides
from allotment.cluster.leader_election import DEFAULT_TIMINGS, LeaseTimings


class Address(NamedTuple):
    """Where something listens; port 0 is any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def local(self) -> bool:
        """Whether nobody but this machine reaches it.

        >>> Address("127.0.0.1", 0).local, Address("0.0.0.0", 8443).local
        (True, False)
        """
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def address(text: str) -> Address:
    """An address as Kubernetes' flags have it. Raises ValueError, which says what was wanted.

    >>> str(address(":8081")), str(address("[::1]:8081")), str(address("127.0.0.1:0"))
    ('0.0.0.0:8081', '[::1]:8081', '127.0.0.1:0')
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"expected HOST:PORT (127.0.0.1:8081), found {text!r}")
    bare = host.removeprefix("[").removesuffix("]")
    if ":" in bare and bare == host:
        raise ValueError(f"expected an IPv6 address in brackets ([::1]:8081), found {text!r}")
    return Address(bare or "0.0.0.0", int(port))


class LeaderElectionSettings(NamedTuple):
    """Leader election. ``identity``: of this copy; ``namespace``: where the Lease is; ``lease``: its name, where not
    the component's own."""

    identity: str
    namespace: str = "kube-system"
    lease: str = ""
    terms: LeaseTimings = DEFAULT_TIMINGS


class EndpointSettings(NamedTuple):
    """Probes and metrics.

    ``health`` answers ``/livez``, ``/readyz`` and ``/healthz`` in plain text, with nothing that is worth hiding.
    ``metrics`` answers ``/metrics``: as it is on loopback, elsewhere over TLS (``certificate`` and ``key``, PEM) and
    only to those whose token the cluster knows and lets get ``/metrics``. None: not served.
    """

    health: Address | None = None
    metrics: Address | None = None
    certificate: Path | None = None
    key: Path | None = None


class ComponentSettings(NamedTuple):
    """``leading`` is None where one copy runs. ``traces`` is an OTLP/HTTP endpoint, or empty."""

    serving: EndpointSettings = EndpointSettings()
    leading: LeaderElectionSettings | None = None
    logs: Literal["text", "json"] = "text"
    verbose: bool = False
    traces: str = ""
    feature_overrides: FeatureOverrides = FeatureOverrides()
    shutdown_seconds: float = 10.0
    """Seconds that work under way has to end, when the component is stopped."""
    connect_seconds: float = 30.0
    """Seconds within which the cluster must answer for the first time."""
