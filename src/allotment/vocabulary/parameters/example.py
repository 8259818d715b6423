"""The parameters of Kubernetes' example driver: how GPUs are shared, how much may burst through network cards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

import msgspec

from allotment.vocabulary.parameters.problem import Problem
from allotment.vocabulary.parameters.problem import field as at_field

GPU_CONFIG: Final = ("gpu.resource.example.com/v1alpha1", "GpuConfig")
NET_CONFIG: Final = ("net.resource.example.com/v1alpha1", "NetConfig")

#: Bits: the traffic shaper counts bytes in 32 bits.
_MOST_BURST: Final = 8 * (2**32 - 1)


class TimeSlicingConfig(msgspec.Struct, frozen=True, rename="camel"):
    """How long a program computes before it is another's turn."""

    interval: Literal["Default", "Short", "Medium", "Long"] = "Default"


class SpacePartitioningConfig(msgspec.Struct, frozen=True, rename="camel"):
    """Into how many equal parts a GPU is divided."""

    partition_count: int = 1


class GpuSharing(msgspec.Struct, frozen=True, rename="camel"):
    """How the programs of a claim share its GPUs."""

    strategy: Literal["TimeSlicing", "SpacePartitioning"]
    time_slicing_config: TimeSlicingConfig | None = None
    space_partitioning_config: SpacePartitioningConfig | None = None


class GpuConfig(msgspec.Struct, frozen=True, rename="camel"):
    """The parameters; programs take turns unless told otherwise."""

    sharing: GpuSharing | None = None


class Burst(msgspec.Struct, frozen=True, rename="camel"):
    """Bits that may pass at once; 0 leaves it to the system."""

    ingress_burst: int = 0
    egress_burst: int = 0


class NetConfig(msgspec.Struct, frozen=True):
    """The parameters."""

    burst: Burst | None = msgspec.field(default=None, name="bwBurst")


GPU_KINDS: Final[Mapping[tuple[str, str], type]] = {GPU_CONFIG: GpuConfig}
NET_KINDS: Final[Mapping[tuple[str, str], type]] = {NET_CONFIG: NetConfig}


def gpu_problems(config: GpuConfig) -> Iterator[Problem]:
    """The settings must be those of the strategy."""
    sharing = config.sharing
    if sharing is None:
        return
    slicing = sharing.strategy == "TimeSlicing"
    name = "spacePartitioningConfig" if slicing else "timeSlicingConfig"
    if (sharing.space_partitioning_config if slicing else sharing.time_slicing_config) is not None:
        yield at_field(f"sharing.{name}", f"not with strategy {sharing.strategy}; leave one of them out")
    parts = sharing.space_partitioning_config
    if parts is not None and parts.partition_count < 0:
        place = "sharing.spacePartitioningConfig.partitionCount"
        yield at_field(place, f"expected 0 or more, found {parts.partition_count}")


def net_problems(config: NetConfig) -> Iterator[Problem]:
    """Bursts have a limit."""
    burst = config.burst or Burst()
    for name, bits in (("ingressBurst", burst.ingress_burst), ("egressBurst", burst.egress_burst)):
        if not 0 <= bits < _MOST_BURST:
            yield at_field(f"bwBurst.{name}", f"expected 0 or more, and less than 4 GiB, found {bits}")
