"""The drivers of Kubernetes' example devices: GPUs, network cards and processors without hardware.

They publish everything that a driver can, and their devices are visible in containers as variables.

Preparing changes nothing, so the plan only lists the devices. Health is set by a user, to try taints, evictions and the
kubelet's view of health.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from allotment.cdi.spec import ContainerEdits
from allotment.drivers.driver import (
    AllocatedClaim,
    AllocatedDevice,
    ClaimError,
    DeviceEvent,
    DevicePool,
    HealthUpdate,
    PreparedClaim,
    ReadyDevice,
    Tree,
)
from allotment.fleet.example import (
    CPU_CAPACITY,
    CPU_DRIVER,
    GPU_DRIVER,
    NET_DRIVER,
    cpu_groups,
    gpu_offering,
    nic_groups,
)
from allotment.fleet.modes import ExampleMode
from allotment.model.resource import Device, DeviceTaint
from allotment.model.trees import to_tree
from allotment.vocabulary.parameters.example import (
    GPU_KINDS,
    NET_KINDS,
    Burst,
    GpuConfig,
    GpuSharing,
    SpacePartitioningConfig,
    TimeSlicingConfig,
    gpu_problems,
    net_problems,
)

Effect = Literal["None", "NoSchedule", "NoExecute"]
BROKEN: Final = "example.com/broken"
_EFFECTS: Final[Mapping[str, Effect]] = {"None": "None", "NoSchedule": "NoSchedule", "NoExecute": "NoExecute"}


class ExampleDriver:
    """A driver with a fixed pool of devices. ``profile`` is the prefix of its variables."""

    def __init__(self, name: str, profile: str, node: str, pool: DevicePool) -> None:
        self.name = name
        self._profile = profile
        self._node = node
        self._pool = pool
        self._devices: Mapping[str, Device] = {device.name: device for group in pool.groups for device in group}
        self._events: asyncio.Queue[DeviceEvent] = asyncio.Queue()
        self._faults: Mapping[str, Effect] = {}

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        return {}

    def variables(self, device: AllocatedDevice) -> Sequence[str]:
        """Return a device's variables for containers, in addition to those for its claim."""
        return ()

    def status_data(self, device: Device) -> Tree | None:
        """Return a device's data for the claim's status, or None."""
        return None

    def set_faults(self, faults: Mapping[str, Effect]) -> None:
        """Set the unhealthy devices of this driver, with the effect of their taint; all others are healthy."""
        for name in self._devices:
            effect = faults.get(name)
            if effect != self._faults.get(name):
                taint = DeviceTaint(key=BROKEN, effect=effect or "")
                unhealthy = HealthUpdate(name, "Unhealthy", "simulated fault", (taint,))
                self._events.put_nowait(unhealthy if effect is not None else HealthUpdate(name, "Healthy"))
        self._faults = {name: effect for name, effect in faults.items() if name in self._devices}

    @property
    def devices(self) -> frozenset[str]:
        """The names of all devices."""
        return frozenset(self._devices)

    # --- the Driver interface ---------------------------------------------------------------------------------------

    async def discover(self) -> Sequence[DevicePool]:
        return (self._pool,)

    def config_applies(self, device: str, config: Any) -> bool:
        """Always True: all devices are of one kind."""
        return True

    def validate(self, config: Any) -> None:
        """Accept all parameters of the right type."""

    def plan(self, claim: AllocatedClaim) -> Tree:
        """Return the names of the devices."""
        return {"devices": [device.device for device in claim.devices]}

    async def prepare(self, claim: AllocatedClaim, plan: Tree) -> PreparedClaim:
        """Return the variables of the devices."""
        common = (f"KUBERNETES_NODE_NAME={self._node}", f"DRA_RESOURCE_DRIVER_NAME={self.name}")
        devices = {device.key: self._ready(claim, device) for device in claim.devices}
        return PreparedClaim(devices, ContainerEdits(env=common))

    def _ready(self, claim: AllocatedClaim, device: AllocatedDevice) -> ReadyDevice:
        name = re.sub(r"[^A-Z0-9]+", "_", device.device.upper())
        env = (
            f"{self._profile}_DEVICE_{name}_RESOURCE_CLAIM={claim.uid}",
            f"DRA_ADMIN_ACCESS={str(device.admin_access).lower()}",
            *self.variables(device),
        )
        published = self._devices.get(device.device)
        return ReadyDevice(ContainerEdits(env=env), self.status_data(published) if published is not None else None)

    async def unprepare(self, plan: Tree, others: Sequence[Tree] = ()) -> None:
        """Do nothing: preparing changes nothing."""

    async def watch(self) -> AsyncIterator[DeviceEvent]:
        """Yield the changes that :meth:`set_faults` made."""
        while True:
            yield await self._events.get()


def parse_faults(text: str, devices: frozenset[str]) -> dict[str, Effect]:
    """Parse the faults in an annotation. Raises ValueError.

    >>> parse_faults("gpu-0=NoExecute", frozenset({"gpu-0"}))
    {'gpu-0': 'NoExecute'}
    """
    faults: dict[str, Effect] = {}
    for entry in filter(None, text.split(",")):
        device, _, effect = entry.strip().partition("=")
        if device not in devices:
            raise ValueError(f"{entry!r}: device {device!r} not found")
        if effect not in _EFFECTS:
            raise ValueError(f"{entry!r}: expected one of the effects {', '.join(_EFFECTS)}, found {effect!r}")
        faults[device] = _EFFECTS[effect]
    return faults


#: Whole GPUs, for one claim each.
DEFAULT_MODE: Final = ExampleMode()


class ExampleGpus(ExampleDriver):
    """``gpu.example.com``: GPUs with sharing settings."""

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


class ExampleNics(ExampleDriver):
    """``net.example.com``: network cards with bandwidth and bursts."""

    def __init__(self, node: str, nics: int = 8) -> None:
        super().__init__(NET_DRIVER, "NET", node, DevicePool(nic_groups(node, nics)))

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        return NET_KINDS

    def validate(self, config: Any) -> None:
        """Check the limits of bursts. Raises ClaimError."""
        for problem in net_problems(config):
            raise ClaimError(str(problem), permanent=True)

    def variables(self, device: AllocatedDevice) -> Sequence[str]:
        """Return the rates and bursts."""
        return tuple(self._variables(device))

    def _variables(self, device: AllocatedDevice) -> Iterator[str]:
        name = f"NET_DEVICE_{device.device.removeprefix('nic-')}"
        burst = (device.config.burst if device.config is not None else None) or Burst()
        for direction, bits in (("ingress", burst.ingress_burst), ("egress", burst.egress_burst)):
            if bits:
                yield f"{name}_{direction.upper()}_BURST={bits}"
            if f"{direction}Bandwidth" in device.consumed_capacity:
                rate = device.consumed_capacity[f"{direction}Bandwidth"]
                yield f"{name}_{direction.upper()}_RATE={rate.as_integer()}"


class ExampleCpus(ExampleDriver):
    """``cpu.example.com``: processors."""

    def __init__(self, node: str, numa_nodes: int = 8) -> None:
        super().__init__(CPU_DRIVER, "CPU", node, DevicePool(cpu_groups(numa_nodes)))

    def variables(self, device: AllocatedDevice) -> Sequence[str]:
        """Return the NUMA node and the number of processors."""
        name = f"CPU_DEVICE_{device.device.removeprefix('numa-')}"
        consumed = device.consumed_capacity.get(CPU_CAPACITY)
        return (f"{name}={device.device}", *((f"{name}_CONSUMED_CPU={consumed}",) if consumed is not None else ()))
