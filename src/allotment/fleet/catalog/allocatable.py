"""Estimated allocatable resources of nodes: the advertised size, less what system and kubelet reserve.

GKE and AKS publish what they reserve. For other clouds GKE's rule applies, which reserves the most. In addition, kernel
and firmware use a part of the memory; 3 % is more than measured on any virtual machine. The estimates are low on
purpose: a node that is larger than estimated fits every pod that was planned for it.

The disk for pods (``ephemeral-storage``) does not depend on the instance type but on the node's configuration. The
defaults are 20 GiB on EKS and with Karpenter, 100 GB on GKE, at least 128 GiB on AKS. The kubelet keeps a tenth of it
free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_FLOOR, Decimal
from typing import Final, NamedTuple

from allotment.fleet.catalog.instance_type import InstanceType, NodeCapacity

#: The kubelet's default limit, and what GKE and AKS (with an overlay network) allow by default.
PODS: Final = 110

_MIB_OF_GIB: Final = 1024
#: Both clouds evict pods when less than this is left.
_EVICTION_MIB: Final = 100
_KERNEL_PERCENT: Final = 3


class _Reserved(NamedTuple):
    """Reserved resources: thousandths of a CPU, and MiB."""

    cpu_milli: Decimal
    memory_mib: Decimal


def _gke(cpus: Decimal, memory_mib: Decimal) -> _Reserved:
    """6 % of the first core, 1 % of the next, 0.5 % of two more, 0.25 % of the others; memory in steps likewise."""
    cpu = _stepped_sum(cpus * 1000, ((1000, "0.06"), (2000, "0.01"), (4000, "0.005")), "0.0025")
    gib = Decimal(_MIB_OF_GIB)
    if memory_mib < gib:
        return _Reserved(cpu, Decimal(255))
    steps = ((4 * gib, "0.25"), (8 * gib, "0.20"), (16 * gib, "0.10"), (128 * gib, "0.06"))
    return _Reserved(cpu, _stepped_sum(memory_mib, steps, "0.02"))


def _aks(cpus: Decimal, memory_mib: Decimal) -> _Reserved:
    """60 m for one core, 100 for two, 140 for four, then 10 for each; 20 MB a pod and 50 MB, at most a quarter."""
    cpu = Decimal(20) + _stepped_sum(cpus, ((2, "40"), (4, "20")), "10")
    megabytes = Decimal((20 * PODS + 50) * 10**6) / (1 << 20)
    return _Reserved(cpu, min(megabytes, memory_mib / 4))


def _stepped_sum(amount: Decimal, steps: tuple[tuple[int | Decimal, str], ...], rest: str) -> Decimal:
    """Return a sum of shares: each range up to a limit has its own share, the range above all limits the last one."""
    total, below = Decimal(0), Decimal(0)
    for limit, share in steps:
        total += (min(amount, Decimal(limit)) - below) * Decimal(share)
        below = Decimal(limit)
        if amount <= below:
            return total
    return total + (amount - below) * Decimal(rest)


_RULES: Final[Mapping[str, Callable[[Decimal, Decimal], _Reserved]]] = {"azure": _aks}


class Disk(NamedTuple):
    """Disk for pods of a node, in MiB; ``estimated``: by a rule, not from a source."""

    mib: int
    estimated: bool = True


def _left_on_gke() -> Decimal:
    """Of 100 GB, less what GKE keeps of boot disks: the least of a half, 6 GiB and 35 %, and 100 GiB."""
    whole = Decimal(100 * 10**9) / (1 << 20)
    gib = Decimal(_MIB_OF_GIB)
    return whole - min(whole / 2, 6 * gib + whole * Decimal("0.35"), 100 * gib) - whole / 10


#: Clouds with an unknown default are assumed to have the smallest.
_LEAST_DISK: Final = 20 * Decimal(_MIB_OF_GIB) * Decimal("0.9") - _MIB_OF_GIB  # EKS reserves 1 GiB for the kubelet
_DISKS: Final[Mapping[str, Decimal]] = {
    "gcp": _left_on_gke(),
    "azure": 128 * Decimal(_MIB_OF_GIB) * Decimal("0.97") * Decimal("0.9"),  # file system overhead is considerable
}


def disk_of(instance: InstanceType) -> Disk:
    """Return the disk for pods of a type's node: from the catalog, or else by the cloud's default disk.

    >>> from allotment.fleet.catalog.packaged import catalog
    >>> [disk_of(one) for one in catalog() if one.name == "g5.xlarge"]
    [Disk(mib=17408, estimated=True)]
    """
    if instance.disk_gib is not None:
        return Disk(int(instance.disk_gib * _MIB_OF_GIB), estimated=False)
    return Disk(int(_DISKS.get(instance.provider, _LEAST_DISK)))


def estimated_capacity(provider: str, vcpu: Decimal, memory_gib: Decimal) -> NodeCapacity:
    """Estimate the allocatable resources of an advertised size.

    >>> estimated_capacity("gcp", Decimal(4), Decimal(16))
    NodeCapacity(cpu_milli=3920, memory_mib=13179, pods=110, estimated=True)
    """
    memory = memory_gib * _MIB_OF_GIB * (100 - _KERNEL_PERCENT) / 100
    kept = _RULES.get(provider, _gke)(vcpu, memory)
    return NodeCapacity(
        int((vcpu * 1000 - kept.cpu_milli).to_integral_value(ROUND_FLOOR)),
        int((memory - kept.memory_mib - _EVICTION_MIB).to_integral_value(ROUND_FLOOR)),
        PODS,
        estimated=True,
    )
