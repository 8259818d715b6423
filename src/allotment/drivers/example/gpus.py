"""``gpu.example.com``: what a claim may ask of GPUs, and what their containers are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from allotment.drivers.driver import AllocatedDevice, ClaimError, DevicePool, Tree
from allotment.drivers.example.base_driver import ExampleDriver
from allotment.fleet.example import GPU_DRIVER, gpu_offering
from allotment.fleet.modes import Example
from allotment.model.resource import Device
from allotment.model.trees import to_tree
from allotment.vocabulary.parameters.example import (
    GPU_KINDS,
    GpuConfig,
    GpuSharing,
    SpacePartitioningConfig,
    TimeSlicingConfig,
    gpu_problems,
)

#: Whole GPUs, for one claim each.
DEFAULT_MODE: Final = Example()


class ExampleGpus(ExampleDriver):
    """The driver of a node."""

    def __init__(self, node: str, gpus: int = 8, mode: Example = DEFAULT_MODE) -> None:
        super().__init__(GPU_DRIVER, "GPU", node, DevicePool(*gpu_offering(node, gpus, mode)))
        self._publishes_status = mode.status

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        """One kind."""
        return GPU_KINDS

    def validate(self, config: Any) -> None:
        """The settings must be those of the strategy."""
        for problem in gpu_problems(config):
            raise ClaimError(str(problem), permanent=True)

    def variables(self, granted: AllocatedDevice) -> Sequence[str]:
        """Which GPU, how it is shared, and how much of it."""
        return tuple(self._variables(granted))

    def _variables(self, granted: AllocatedDevice) -> Iterator[str]:
        name = f"GPU_DEVICE_{granted.device.removeprefix('gpu-').upper().replace('-', '_')}"
        yield f"{name}={granted.device}"
        if not granted.admin_access:  # who only looks on has no say in how others share
            config = granted.config or GpuConfig()
            sharing = config.sharing or GpuSharing("TimeSlicing")
            yield f"{name}_SHARING_STRATEGY={sharing.strategy}"
            if sharing.strategy == "TimeSlicing":
                yield f"{name}_TIMESLICE_INTERVAL={(sharing.time_slicing_config or TimeSlicingConfig()).interval}"
            else:
                parts = sharing.space_partitioning_config or SpacePartitioningConfig()
                yield f"{name}_PARTITION_COUNT={parts.partition_count}"
        for capacity in ("memory", "compute"):
            if capacity in granted.consumed_capacity:
                yield f"{name}_{capacity.upper()}={granted.consumed_capacity[capacity]}"

    def status_data(self, device: Device) -> Tree | None:
        """Facts that stay known when the device is gone."""
        if not self._publishes_status:
            return None
        return {name: to_tree(device.attributes[name]) for name in ("uuid", "model", "driverVersion")}
