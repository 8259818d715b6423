"""``gpu.example.com``: what a claim may ask of GPUs, and what their containers are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from allotment.drivers.driver import Granted, Offer, Refused, Tree
from allotment.drivers.example.imaginary import Imaginary
from allotment.fleet.example import GPU_DRIVER, gpu_offering
from allotment.fleet.modes import Example
from allotment.model.resource import Device
from allotment.model.trees import to_tree

CONFIG: Final = ("gpu.resource.example.com/v1alpha1", "GpuConfig")


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


#: Whole GPUs, for one claim each.
USUAL: Final = Example()


class ExampleGpus(Imaginary):
    """The driver of a node."""

    def __init__(self, node: str, gpus: int = 8, mode: Example = USUAL) -> None:
        super().__init__(GPU_DRIVER, "GPU", node, Offer(*gpu_offering(node, gpus, mode)))
        self._tells = mode.status

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        """One kind."""
        return {CONFIG: GpuConfig}

    def validate(self, config: Any) -> None:
        """The settings must be those of the strategy."""
        sharing = config.sharing
        if sharing is None:
            return
        other = "space_partitioning_config" if sharing.strategy == "TimeSlicing" else "time_slicing_config"
        if getattr(sharing, other) is not None:
            name = "spacePartitioningConfig" if sharing.strategy == "TimeSlicing" else "timeSlicingConfig"
            raise Refused(
                f"sharing.{name}: not with strategy {sharing.strategy}; leave one of them out", permanent=True
            )
        parts = sharing.space_partitioning_config
        if parts is not None and parts.partition_count < 0:
            found = parts.partition_count
            path = "sharing.spacePartitioningConfig.partitionCount"
            raise Refused(f"{path}: wanted 0 or more, found {found}", permanent=True)

    def variables(self, granted: Granted) -> Sequence[str]:
        """Which GPU, how it is shared, and how much of it."""
        return tuple(self._variables(granted))

    def _variables(self, granted: Granted) -> Iterator[str]:
        name = f"GPU_DEVICE_{granted.device.removeprefix('gpu-').upper().replace('-', '_')}"
        yield f"{name}={granted.device}"
        if not granted.admin:  # who only looks on has no say in how others share
            config = granted.config or GpuConfig()
            sharing = config.sharing or GpuSharing("TimeSlicing")
            yield f"{name}_SHARING_STRATEGY={sharing.strategy}"
            if sharing.strategy == "TimeSlicing":
                yield f"{name}_TIMESLICE_INTERVAL={(sharing.time_slicing_config or TimeSlicingConfig()).interval}"
            else:
                parts = sharing.space_partitioning_config or SpacePartitioningConfig()
                yield f"{name}_PARTITION_COUNT={parts.partition_count}"
        for capacity in ("memory", "compute"):
            if capacity in granted.consumed:
                yield f"{name}_{capacity.upper()}={granted.consumed[capacity]}"

    def data(self, device: Device) -> Tree | None:
        """Facts that stay known when the device is gone."""
        if not self._tells:
            return None
        return {name: to_tree(device.attributes[name]) for name in ("uuid", "model", "driverVersion")}
