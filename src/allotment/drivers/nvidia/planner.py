"""Makes the plan of a claim: its devices, how they are shared, and whether other claims prevent it. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from allotment.drivers.driver import AllocatedClaim, AllocatedDevice, ClaimError
from allotment.drivers.nvidia.config import (
    INTERVALS,
    GpuConfig,
    MigDeviceConfig,
    MpsConfig,
    TimeSlicingConfig,
    VfioDeviceConfig,
    mebibytes,
    memory_limits,
)
from allotment.drivers.nvidia.inventory import NodeInventory
from allotment.drivers.nvidia.plan import Plan, PlannedDaemon, PlannedDevice, TimeSlice, daemon_key
from allotment.drivers.nvidia.vfio import several_groups_error
from allotment.model.quantity import Quantity

#: The capacity that claims consume, without or with the driver's domain.
_MEMORY_CAPACITIES = ("memory", "gpu.nvidia.com/memory")


def limited_daemon(
    claim: str, position: int, device: PlannedDevice, allocated: AllocatedDevice, config: MpsConfig
) -> PlannedDaemon:
    """The daemon that limits a claim's programs to the memory that the claim consumed. Raises ClaimError."""
    consumed = _consumed_memory(allocated)
    if device.kind != "gpu" or consumed is None:
        raise ClaimError(
            f"device {device.device}: this node shares GPUs by memory, but the claim's allocation does not specify the "
            "consumed memory; enable the feature gate DRAConsumableCapacity in the cluster",
            permanent=True,
        )
    return PlannedDaemon(
        # A claim can have several shares of one GPU.
        key=daemon_key(claim, (device.uuid, device.share_id)),
        members=(position,),
        exclusive=False,
        threads=config.default_active_thread_percentage,
        limit=mebibytes(consumed, f"device {device.device}: consumed memory"),
        multi_user=config.multi_user,
    )


def mps_config_of(config: Any) -> MpsConfig:
    """The MPS parameters that a claim can set when its consumed memory is the limit. Raises ClaimError."""
    sharing = config.sharing if isinstance(config, GpuConfig) else None
    if sharing is None:
        return MpsConfig()
    if sharing.strategy != "MPS":
        raise ClaimError(
            "sharing.strategy: expected MPS, because this node shares GPUs by memory; found TimeSlicing", permanent=True
        )
    mps: MpsConfig = sharing.mps_config or MpsConfig()
    if mps.default_pinned_device_memory_limit is not None or mps.default_per_device_pinned_memory_limit:
        raise ClaimError(
            "sharing.mpsConfig: this node shares GPUs by memory, and the requested memory is the limit; set "
            "capacity.requests.memory and remove the memory limits",
            permanent=True,
        )
    return mps


def _consumed_memory(allocated: AllocatedDevice) -> Quantity | None:
    return next(
        (allocated.consumed_capacity[name] for name in _MEMORY_CAPACITIES if name in allocated.consumed_capacity), None
    )


#: Clients of several users need per-client address spaces, which were added in Volta.
_MULTI_USER_SINCE = (7, 0)


def plan_claim(claim: AllocatedClaim, inventory: NodeInventory, *, enforced: bool) -> Plan:
    """Return the plan of a claim. ``enforced``: enforce the memory limits of shared GPUs. Raises ClaimError."""
    devices = tuple(_with_config(inventory.plan_device(allocated), allocated) for allocated in claim.devices)
    groups = {device.device: device.group for device in devices if device.group >= 0}
    if len(set(groups.values())) > 1:
        raise several_groups_error(groups)
    time_slices: list[TimeSlice] = []
    daemons: list[PlannedDaemon] = []
    for members in _by_config(claim.devices):
        config = claim.devices[members[0]].config
        if enforced:
            daemons.extend(
                limited_daemon(claim.uid, position, devices[position], claim.devices[position], mps_config_of(config))
                for position in members
            )
        elif isinstance(config, GpuConfig | MigDeviceConfig) and config.sharing is not None:
            if config.sharing.strategy == "MPS":
                mps = config.sharing.mps_config or MpsConfig()
                daemons.append(_planned_daemon(claim.uid, members, devices, mps, inventory))
            elif isinstance(config, GpuConfig):
                slicing = config.sharing.time_slicing_config or TimeSlicingConfig()
                gpus = tuple(dict.fromkeys(devices[position].pci for position in members))
                time_slices.append(TimeSlice(gpus, INTERVALS[slicing.interval]))
            # MIG devices have no time-slice setting: their programs use the default.
    return Plan(claim.uid, devices, tuple(time_slices), tuple(daemons))


def _with_config(device: PlannedDevice, allocated: AllocatedDevice) -> PlannedDevice:
    if device.kind == "vfio" and allocated.admin_access:
        raise ClaimError(
            f"device {device.device}: admin access to a GPU for virtual machines is not possible; request it without "
            "admin access",
            permanent=True,
        )
    if isinstance(allocated.config, VfioDeviceConfig) and allocated.config.iommu is not None:
        iommu = allocated.config.iommu
        return replace(device, api=iommu.enable_api_device, iommu_fd=iommu.backend_policy == "PreferIommuFD")
    return device


def _by_config(allocated: Sequence[AllocatedDevice]) -> Iterable[tuple[int, ...]]:
    """Positions of the devices with the same parameters: each group is configured together."""
    groups: dict[int, list[int]] = {}
    for position, device in enumerate(allocated):
        if not device.admin_access:
            # By identity: two configuration entries of a claim are two groups, even if they are equal.
            groups.setdefault(id(device.config), []).append(position)
    return [tuple(group) for group in groups.values()]


def _planned_daemon(
    claim: str,
    members: tuple[int, ...],
    all_devices: Sequence[PlannedDevice],
    config: MpsConfig,
    inventory: NodeInventory,
) -> PlannedDaemon:
    devices = [all_devices[position] for position in members]
    for device in devices:
        if device.share_id:
            raise ClaimError(
                f"device {device.device}: claims that share the GPU by count cannot have separate MPS daemons; publish "
                "the node's GPUs in mode shared, where each claim has its own daemon",
                permanent=True,
            )
        gpu = inventory.gpu(device.pci)
        if config.multi_user and gpu is not None and _capability(gpu.compute_capability) < _MULTI_USER_SINCE:
            raise ClaimError(
                f"device {device.device}: sharing.mpsConfig.multiUser requires compute capability >= 7.0; "
                f"{gpu.product} has {gpu.compute_capability}",
                permanent=True,
            )
    limit = config.default_pinned_device_memory_limit
    default = None if limit is None else mebibytes(limit, "sharing.mpsConfig.defaultPinnedDeviceMemoryLimit")
    by_device = {
        key: mebibytes(device_limit, f"sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit[{key}]")
        for key, device_limit in (config.default_per_device_pinned_memory_limit or {}).items()
    }
    identities = list(dict.fromkeys(device.identity for device in devices))
    # Check the keys of the limits now, although on-demand MIG devices get their UUIDs only later.
    memory_limits(identities, default, by_device)
    return PlannedDaemon(
        key=daemon_key(claim, identities),
        members=members,
        threads=config.default_active_thread_percentage,
        limit=default,
        limits=by_device,
        multi_user=config.multi_user,
    )


def _capability(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")) if text else (0,)


# --- conflicts --------------------------------------------------------------------------------------------------------


def check_overlap(plan: Plan, others: Iterable[Plan]) -> None:
    """Check that a plan changes nothing that other claims use. Raises ClaimError; retrying may help."""
    others = tuple(others)
    by_gpu: Mapping[str, list[PlannedDevice]] = _by_gpu(plan)
    for other in others:
        for other_device in other.devices:
            if other_device.admin:
                continue
            for device in by_gpu.get(other_device.pci, ()):
                _check_devices(plan, device, other, other_device)
            for device in plan.devices if other_device.group >= 0 else ():
                if device.group == other_device.group:
                    raise ClaimError(
                        f"device {device.device} is in IOMMU group {device.group} with {other_device.device}, which is "
                        f"still prepared for claim {other.claim}; only one virtual machine at a time can use the group"
                    )


def _by_gpu(plan: Plan) -> dict[str, list[PlannedDevice]]:
    by_gpu: dict[str, list[PlannedDevice]] = {}
    for device in plan.devices:
        if not device.admin:
            by_gpu.setdefault(device.pci, []).append(device)
    return by_gpu


def _check_devices(plan: Plan, device: PlannedDevice, other: Plan, other_device: PlannedDevice) -> None:
    if device.kind == other_device.kind == "mig":
        if (device.profile_id, device.start) == (other_device.profile_id, other_device.start):
            raise _in_use_error(device, other, other_device)
        return
    if not (device.kind == other_device.kind == "gpu" and device.share_id and other_device.share_id):
        raise _in_use_error(device, other, other_device)
    setting, existing = plan.sharing_setting(device.pci), other.sharing_setting(device.pci)
    if setting != existing:
        raise ClaimError(
            f"device {device.device}: claim {other.claim} uses it with {_describe(existing)}, but this claim "
            f"requests {_describe(setting)}; all claims on a GPU must have the same sharing parameters"
        )


def _in_use_error(device: PlannedDevice, other: Plan, other_device: PlannedDevice) -> ClaimError:
    return ClaimError(
        f"device {device.device} (GPU {device.pci}) conflicts with {other_device.device}, which is still prepared for "
        f"claim {other.claim}; wait until that claim's last pod has ended"
    )


def _describe(setting: tuple[object, ...]) -> str:
    if not setting:
        return "default settings"
    strategy, value = setting
    if strategy == "MPS":
        return "MPS in exclusive mode" if value else "MPS"
    return f"time-slicing interval {next(name for name, number in INTERVALS.items() if number == value)}"
