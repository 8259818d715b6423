"""Settings of a component, from its command line."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Literal, NamedTuple

from allotment.cluster.inspection.release import FeatureOverrides
from allotment.cluster.leader_election import DEFAULT_TIMINGS, LeaseTimings


class Address(NamedTuple):
    """A listen address; port 0 selects a free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it.

        >>> Address("127.0.0.1", 0).local, Address("0.0.0.0", 8443).local
        (True, False)
        """
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def address(text: str) -> Address:
    """Parse an address in the format of Kubernetes' flags. Raises ValueError.

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
    """Leader election. ``identity``: of this copy; ``namespace`` and ``lease``: of the Lease, whose name defaults to
    the component's."""

    identity: str
    namespace: str = "kube-system"
    lease: str = ""
    terms: LeaseTimings = DEFAULT_TIMINGS


class EndpointSettings(NamedTuple):
    """Probes and metrics.

    ``health`` serves ``/livez``, ``/readyz`` and ``/healthz`` without authentication. ``metrics`` serves ``/metrics``:
    without authentication on loopback addresses, elsewhere over TLS (``certificate`` and ``key``, PEM) and only for
    tokens whose user is allowed to get ``/metrics``. None: not served.
    """

    health: Address | None = None
    metrics: Address | None = None
    certificate: Path | None = None
    key: Path | None = None


class ComponentSettings(NamedTuple):
    """``leading``: None if only one copy runs. ``traces``: an OTLP/HTTP endpoint, or empty."""

    serving: EndpointSettings = EndpointSettings()
    leading: LeaderElectionSettings | None = None
    logs: Literal["text", "json"] = "text"
    verbose: bool = False
    traces: str = ""
    feature_overrides: FeatureOverrides = FeatureOverrides()
    shutdown_seconds: float = 10.0
    """Seconds for work in progress to finish on shutdown."""
    connect_seconds: float = 30.0
    """Seconds within which the cluster must respond at the start."""
