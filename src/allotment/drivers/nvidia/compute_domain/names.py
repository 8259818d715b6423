"""What the parts of ComputeDomains call things: the kind, labels, classes, and the parameters of claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import Struct, field

from allotment.cluster.client import Resource

Tree = dict[str, Any]

GROUP: Final = "resource.nvidia.com"
COMPUTE_DOMAINS: Final = Resource(GROUP, "v1beta1", "computedomains", "ComputeDomain", True)

#: On everything that belongs to a domain, and on the nodes that it is on: the domain's uid.
LABEL: Final = f"{GROUP}/computeDomain"
FINALIZER: Final = f"{GROUP}/computeDomain"

DAEMON_CLASS: Final = "compute-domain-daemon.nvidia.com"
CHANNEL_CLASS: Final = "compute-domain-default-channel.nvidia.com"

#: Where daemons run.
DRIVER_NAMESPACE: Final = "nvidia-dra-driver-gpu"

#: Channels of a node; one of them is published.
CHANNELS: Final = 2048

AllocationMode = Literal["Single", "All"]


class ComputeDomainChannelConfig(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Which domain a workload's claim is for. Written by the controller into the template."""

    domain_id: str = field(name="domainID")
    allocation_mode: AllocationMode = "Single"


class ComputeDomainDaemonConfig(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Which domain a daemon's claim is for."""

    domain_id: str = field(name="domainID")


CONFIGS: Final[Mapping[tuple[str, str], type]] = {
    (COMPUTE_DOMAINS.api_version, kind.__name__): kind
    for kind in (ComputeDomainChannelConfig, ComputeDomainDaemonConfig)
}


def objects_name(uid: str) -> str:
    """The name of a domain's DaemonSet and of its daemons' claim template."""
    return f"computedomain-daemon-{uid}"
