"""``gpu.example.com``: the example driver of GPUs, with sharing settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from allotment.drivers.driver import AllocatedDevice, ClaimError, DevicePool, Tree
from allotment.drivers.example.base_driver import ExampleDriver
from allotment.fleet.example import GPU_DRIVER, gpu_offering
from allotment.fleet.modes import ExampleMode
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
DEFAULT_MODE: Final = ExampleMode()


class ExampleGpus(ExampleDriver):
    def __init__(self, node: str, gpus: int = 8, mode: ExampleMode = DEFAULT_MODE) -> None:
        super().__init__(GPU_DRIVER, "GPU", node, DevicePool(*gpu_offering(node, gpus, mode)))
        self._publishes_status = mode.status

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        return GPU_KINDS

    def validate(self, config: Any) -> None:
        """Check that the settings are those of the strategy. Raises ClaimError."""
        for problem in gpu_problems(config):
            raise ClaimError(str(problem), permanent=True)

    def variables(self, device: AllocatedDevice) -> Sequence[str]:
        """Return the GPU, its sharing settings and the consumed capacity."""
        return tuple(self._variables(device))

    def _variables(self, device: AllocatedDevice) -> Iterator[str]:
        name = f"GPU_DEVICE_{device.device.removeprefix('gpu-').upper().replace('-', '_')}"
        yield f"{name}={device.device}"
        if not device.admin_access:  # with admin access, sharing must not change
            config = device.config or GpuConfig()
            sharing = config.sharing or GpuSharing("TimeSlicing")
            yield f"{name}_SHARING_STRATEGY={sharing.strategy}"
            if sharing.strategy == "TimeSlicing":
                yield f"{name}_TIMESLICE_INTERVAL={(sharing.time_slicing_config or TimeSlicingConfig()).interval}"
            else:
                parts = sharing.space_partitioning_config or SpacePartitioningConfig()
                yield f"{name}_PARTITION_COUNT={parts.partition_count}"
        for capacity in ("memory", "compute"):
            if capacity in device.consumed_capacity:
                yield f"{name}_{capacity.upper()}={device.consumed_capacity[capacity]}"

    def status_data(self, device: Device) -> Tree | None:
        """Return identifying attributes, which stay in the status when the device is gone."""
        if not self._publishes_status:
            return None
        return {name: to_tree(device.attributes[name]) for name in ("uuid", "model", "driverVersion")}
