"""From a claim to its plan: which devices, shared how, and whether others are in the way. Nothing is touched."""

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

#: The capacity that claims consume, by itself or with the driver's domain.
_MEMORY_CAPACITIES = ("memory", "gpu.nvidia.com/memory")


def limited_daemon(
    claim: str, position: int, device: PlannedDevice, allocated: AllocatedDevice, config: MpsConfig
) -> PlannedDaemon:
    """The daemon that holds a claim's programs to the memory that the claim consumed. Raises Refused."""
    consumed = _consumed_memory(allocated)
    if device.kind != "gpu" or consumed is None:
        raise ClaimError(
            f"device {device.device}: this node shares GPUs by memory, and the claim's allocation does not say how much "
            "it consumed; the cluster needs the feature DRAConsumableCapacity",
            permanent=True,
        )
    return PlannedDaemon(
        # A claim may hold several shares of one GPU.
        key=daemon_key(claim, (device.uuid, device.share_id)),
        members=(position,),
        exclusive=False,
        threads=config.default_active_thread_percentage,
        limit=mebibytes(consumed, f"device {device.device}: consumed memory"),
        multi_user=config.multi_user,
    )


def mps_config_of(config: Any) -> MpsConfig:
    """What parameters still may say where the consumed memory is the limit. Raises Refused."""
    sharing = config.sharing if isinstance(config, GpuConfig) else None
    if sharing is None:
        return MpsConfig()
    if sharing.strategy != "MPS":
        raise ClaimError(
            "sharing.strategy: this node shares GPUs by memory, which needs MPS; found TimeSlicing", permanent=True
        )
    mps: MpsConfig = sharing.mps_config or MpsConfig()
    if mps.default_pinned_device_memory_limit is not None or mps.default_per_device_pinned_memory_limit:
        raise ClaimError(
            "sharing.mpsConfig: this node shares GPUs by memory, and the limit is what the claim asked for; ask for it "
            "with capacity.requests.memory and leave the memory limits out",
            permanent=True,
        )
    return mps


def _consumed_memory(allocated: AllocatedDevice) -> Quantity | None:
    return next(
        (allocated.consumed_capacity[name] for name in _MEMORY_CAPACITIES if name in allocated.consumed_capacity), None
    )


#: Clients of several users need per-client address spaces, which Volta brought.
_MULTI_USER_SINCE = (7, 0)


def plan_claim(claim: AllocatedClaim, inventory: NodeInventory, *, enforced: bool) -> Plan:
    """What preparing a claim will do. ``enforced``: GPUs are shared by memory, and held to it. Raises Refused."""
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
            # MIG devices have no setting for time slices: their programs take turns as they are.
    return Plan(claim.uid, devices, tuple(time_slices), tuple(daemons))


def _with_config(device: PlannedDevice, allocated: AllocatedDevice) -> PlannedDevice:
    if device.kind == "vfio" and allocated.admin_access:
        raise ClaimError(
            f"device {device.device}: admin access to a GPU for virtual machines: handing it over would take it away "
            "from others; ask for it without admin access",
            permanent=True,
        )
    if isinstance(allocated.config, VfioDeviceConfig) and allocated.config.iommu is not None:
        iommu = allocated.config.iommu
        return replace(device, api=iommu.enable_api_device, iommu_fd=iommu.backend_policy == "PreferIommuFD")
    return device


def _by_config(allocated: Sequence[AllocatedDevice]) -> Iterable[tuple[int, ...]]:
    """Positions of the devices that get the same parameters: each group is set up once, as one."""
    groups: dict[int, list[int]] = {}
    for position, each in enumerate(allocated):
        if not each.admin_access:
            # By identity: two entries of a claim are two groups, even if they say the same.
            groups.setdefault(id(each.config), []).append(position)
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
                f"device {device.device}: MPS for a GPU that claims share by counting only: its daemon would have to "
                "be that of all of them; publish the node's GPUs in mode shared, where each claim has its own",
                permanent=True,
            )
        gpu = inventory.gpu(device.pci)
        if config.multi_user and gpu is not None and _capability(gpu.compute_capability) < _MULTI_USER_SINCE:
            raise ClaimError(
                f"device {device.device}: sharing.mpsConfig.multiUser: wanted compute capability 7.0 or more, "
                f"{gpu.product} has {gpu.compute_capability}",
                permanent=True,
            )
    limit = config.default_pinned_device_memory_limit
    default = None if limit is None else mebibytes(limit, "sharing.mpsConfig.defaultPinnedDeviceMemoryLimit")
    by_device = {
        key: mebibytes(limit_, f"sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit[{key}]")
        for key, limit_ in (config.default_per_device_pinned_memory_limit or {}).items()
    }
    identities = list(dict.fromkeys(device.identity for device in devices))
    # Whom the limits are for shows now, even where a MIG device gets its UUID only later.
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


# --- others -----------------------------------------------------------------------------------------------------------


def check_overlap(plan: Plan, others: Iterable[Plan]) -> None:
    """Refuse a plan that would change what other claims have. Raises Refused; trying again may help."""
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
                        f"device {device.device} is in IOMMU group {device.group} with {other_device.device}, which is still "
                        f"prepared for claim {other.claim}; one virtual machine at a time can have the group"
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
            f"device {device.device}: claim {other.claim} has a share of it with {_describe(existing)}, this claim wants "
            f"{_describe(setting)}; all claims on one GPU need the same sharing parameters"
        )


def _in_use_error(device: PlannedDevice, other: Plan, other_device: PlannedDevice) -> ClaimError:
    return ClaimError(
        f"device {device.device} (GPU {device.pci}) is in the way of {other_device.device}, which is still prepared for claim "
        f"{other.claim}; it is free when that claim's last pod has ended"
    )


def _describe(setting: tuple[object, ...]) -> str:
    return " ".join(map(str, setting)) if setting else "no setting"
