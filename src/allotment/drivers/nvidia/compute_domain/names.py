"""Names of the ComputeDomain API: the kind, labels, classes, and the parameters of claims."""

from __future__ import annotations

from typing import Final

from allotment.cluster.client import Resource
from allotment.vocabulary.parameters.compute_domain import KINDS
from allotment.vocabulary.parameters.compute_domain import AllocationMode as AllocationMode
from allotment.vocabulary.parameters.compute_domain import ComputeDomainChannelConfig as ComputeDomainChannelConfig
from allotment.vocabulary.parameters.compute_domain import ComputeDomainDaemonConfig as ComputeDomainDaemonConfig

GROUP: Final = "resource.nvidia.com"
COMPUTE_DOMAINS: Final = Resource(GROUP, "v1beta1", "computedomains", "ComputeDomain", True)

#: The label of a domain's objects and nodes, with the domain's uid.
LABEL: Final = f"{GROUP}/computeDomain"
FINALIZER: Final = f"{GROUP}/computeDomain"

DAEMON_CLASS: Final = "compute-domain-daemon.nvidia.com"
CHANNEL_CLASS: Final = "compute-domain-default-channel.nvidia.com"

#: The namespace of daemons.
DRIVER_NAMESPACE: Final = "nvidia-dra-driver-gpu"

#: Number of channels of a node; one of them is published.
CHANNELS: Final = 2048

#: The kinds of parameters.
CONFIGS: Final = KINDS


def objects_name(uid: str) -> str:
    """The name of a domain's DaemonSet and of its daemons' claim template."""
    return f"computedomain-daemon-{uid}"
