"""The GPUs and MIG devices found by the last discovery, and the mapping from published device names to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from allotment.drivers.driver import AllocatedDevice, ClaimError
from allotment.drivers.nvidia.hardware import MigDevice
from allotment.drivers.nvidia.plan import Kind, PlannedDevice
from allotment.fleet.nvidia import Gpu

_WHOLE: Final = re.compile(r"gpu-(\d+)")
# A device name cannot contain the dots and signs of a profile, so it also contains the profile's id.
_MIG: Final = re.compile(r"gpu-(\d+)-mig-.+-(\d+)-(\d+)")
_VFIO: Final = re.compile(r"gpu-vfio-(\d+)")


def kind_of(device: str) -> Kind | None:
    """The kind of a device by its name; None for a name that this driver does not use.

    >>> kind_of("gpu-0"), kind_of("gpu-0-mig-3g20gb-9-4"), kind_of("gpu-vfio-0"), kind_of("nic-0")
    ('gpu', 'mig', 'vfio', None)
    """
    if _MIG.fullmatch(device):
        return "mig"
    if _VFIO.fullmatch(device):
        return "vfio"
    return "gpu" if _WHOLE.fullmatch(device) else None


class NodeInventory(NamedTuple):
    """GPUs, and existing MIG devices by PCI address. ``dynamic_mig``: MIG devices are created for claims."""

    gpus: tuple[Gpu, ...] = ()
    mig_devices: Mapping[str, tuple[MigDevice, ...]] = {}
    dynamic_mig: bool = False

    def plan_device(self, allocated: AllocatedDevice) -> PlannedDevice:
        """The planned device for an allocated one, with stable identifiers. Raises ClaimError if the device does not
        exist.
        """
        match kind_of(allocated.device):
            case "gpu":
                return self._whole(allocated)
            case "mig":
                return self._mig(allocated)
            case "vfio":
                return self._vfio(allocated)
        raise ClaimError(f"device {allocated.device}: not a valid device name of this driver", permanent=True)

    def gpu_of(self, device: str) -> Gpu | None:
        """The GPU that a published device is, or is part of."""
        if kind_of(device) == "vfio":
            return dict(enumerate(sorted(self.gpus, key=lambda gpu: gpu.pci))).get(_numbers_in(_VFIO, device)[0])
        numbers = _numbers_in(_WHOLE, device) or _numbers_in(_MIG, device)
        return next((gpu for gpu in self.gpus if gpu.minor in numbers[:1]), None)

    def gpu(self, pci: str) -> Gpu | None:
        """The GPU at a PCI address."""
        return next((gpu for gpu in self.gpus if gpu.pci == pci), None)

    def _whole(self, allocated: AllocatedDevice) -> PlannedDevice:
        gpu = self._by_minor(allocated, _numbers_in(_WHOLE, allocated.device)[0])
        return _planned_device("gpu", allocated, gpu, uuid=gpu.uuid)

    def _mig(self, allocated: AllocatedDevice) -> PlannedDevice:
        minor, profile_id, start = _numbers_in(_MIG, allocated.device)
        gpu = self._by_minor(allocated, minor)
        for device in self.mig_devices.get(gpu.pci, ()):
            if (device.profile_id, device.start) == (profile_id, start):
                return _planned_device("mig", allocated, gpu, uuid=device.uuid, profile_id=profile_id, start=start)
        if not self.dynamic_mig:
            raise _missing(allocated, "its MIG device was destroyed, or MIG was disabled")
        profiles = gpu.mig.profiles if gpu.mig else ()
        if not any(profile.gi_id == profile_id and start in profile.starts for profile in profiles):
            raise _missing(allocated, f"{gpu.product} has no placement for MIG profile {profile_id} at start {start}")
        return _planned_device(
            "mig", allocated, gpu, profile_id=profile_id, start=start, dynamic=not allocated.admin_access
        )

    def _vfio(self, allocated: AllocatedDevice) -> PlannedDevice:
        index = _numbers_in(_VFIO, allocated.device)[0]
        if index >= len(self.gpus):
            raise _missing(allocated, f"the node has {len(self.gpus)} GPUs")
        gpu = sorted(self.gpus, key=lambda gpu: gpu.pci)[index]
        return replace(
            _planned_device("vfio", allocated, gpu), group=-1 if gpu.iommu_group is None else gpu.iommu_group
        )

    def _by_minor(self, allocated: AllocatedDevice, minor: int) -> Gpu:
        for gpu in self.gpus:
            if gpu.minor == minor:
                return gpu
        raise _missing(allocated, f"no GPU with minor number {minor}")


def _planned_device(
    kind: Kind,
    allocated: AllocatedDevice,
    gpu: Gpu,
    *,
    uuid: str = "",
    profile_id: int = -1,
    start: int = -1,
    dynamic: bool = False,
) -> PlannedDevice:
    return PlannedDevice(
        kind=kind,
        pool=allocated.pool,
        device=allocated.device,
        pci=gpu.pci,
        share_id=allocated.share_id,
        uuid=uuid,
        profile_id=profile_id,
        start=start,
        dynamic=dynamic,
        admin=allocated.admin_access,
    )


def _numbers_in(pattern: re.Pattern[str], name: str) -> list[int]:
    match = pattern.fullmatch(name)
    return [int(group) for group in match.groups()] if match else []


def _missing(allocated: AllocatedDevice, reason: str) -> ClaimError:
    # Not permanent: the device may be added again.
    return ClaimError(f"device {allocated.device} not found on this node: {reason}")
