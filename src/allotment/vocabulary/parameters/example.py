"""The parameters of Kubernetes' example driver: how GPUs are shared, and the bursts of network cards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

import msgspec

from allotment.vocabulary.parameters.problem import ParameterProblem, field_problem

GPU_CONFIG: Final = ("gpu.resource.example.com/v1alpha1", "GpuConfig")
NET_CONFIG: Final = ("net.resource.example.com/v1alpha1", "NetConfig")

#: Bits: the traffic shaper counts bytes in 32 bits.
_MOST_BURST: Final = 8 * (2**32 - 1)


class TimeSlicingConfig(msgspec.Struct, frozen=True, rename="camel"):
    """The time slice: how long a program computes before the next one runs."""

    interval: Literal["Default", "Short", "Medium", "Long"] = "Default"


class SpacePartitioningConfig(msgspec.Struct, frozen=True, rename="camel"):
    """The number of equal partitions of a GPU."""

    partition_count: int = 1


class GpuSharing(msgspec.Struct, frozen=True, rename="camel"):
    """The way in which programs share a claim's GPUs."""

    strategy: Literal["TimeSlicing", "SpacePartitioning"]
    time_slicing_config: TimeSlicingConfig | None = None
    space_partitioning_config: SpacePartitioningConfig | None = None


class GpuConfig(msgspec.Struct, frozen=True, rename="camel"):
    """Parameters for GPUs; by default, programs share by time slices."""

    sharing: GpuSharing | None = None


class Burst(msgspec.Struct, frozen=True, rename="camel"):
    """The burst size in bits; 0 means the system's default."""

    ingress_burst: int = 0
    egress_burst: int = 0


class NetConfig(msgspec.Struct, frozen=True):
    """Parameters for network cards."""

    burst: Burst | None = msgspec.field(default=None, name="bwBurst")


GPU_KINDS: Final[Mapping[tuple[str, str], type]] = {GPU_CONFIG: GpuConfig}
NET_KINDS: Final[Mapping[tuple[str, str], type]] = {NET_CONFIG: NetConfig}


def gpu_problems(config: GpuConfig) -> Iterator[ParameterProblem]:
    """Yield problems of settings: they must be those of the selected strategy."""
    sharing = config.sharing
    if sharing is None:
        return
    slicing = sharing.strategy == "TimeSlicing"
    name = "spacePartitioningConfig" if slicing else "timeSlicingConfig"
    if (sharing.space_partitioning_config if slicing else sharing.time_slicing_config) is not None:
        yield field_problem(f"sharing.{name}", f"not allowed with strategy {sharing.strategy}; omit one of them")
    parts = sharing.space_partitioning_config
    if parts is not None and parts.partition_count < 0:
        field = "sharing.spacePartitioningConfig.partitionCount"
        yield field_problem(field, f"expected a number >= 0, found {parts.partition_count}")


def net_problems(config: NetConfig) -> Iterator[ParameterProblem]:
    """Yield problems of bursts, which have a maximum size."""
    burst = config.burst or Burst()
    for name, bits in (("ingressBurst", burst.ingress_burst), ("egressBurst", burst.egress_burst)):
        if not 0 <= bits < _MOST_BURST:
            yield field_problem(f"bwBurst.{name}", f"expected a number >= 0 and less than 4 GiB, found {bits}")
