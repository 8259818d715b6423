"""MIG devices made and destroyed: all or nothing.

A MIG device is a GPU instance, which has memory and engines, with a compute instance over all of it. A process that is
killed between the two leaves half of one, which is in the way of others: whoever makes or destroys the MIG device of
that place clears it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from ctypes import byref, c_uint
from typing import Any, NamedTuple

from allotment.drivers.nvidia.hardware import HardwareError, MigDevice
from allotment.drivers.nvidia.nvml.facts import placements, profile_info
from allotment.drivers.nvidia.nvml.library import Handle, Library, text

_OFF, _ON = 0, 1


class _Instance(NamedTuple):
    """A GPU instance that exists. ``compute``: its compute instances, (handle, id, slices)."""

    handle: Any
    id: int
    profile_id: int
    start: int
    slices: int
    compute: tuple[tuple[Any, int, int], ...]


def mig_devices(library: Library, handle: Handle) -> tuple[MigDevice, ...]:
    """The MIG devices of a GPU by place. What somebody divided further is none of ours, and left out."""
    if not _enabled(library, handle):
        return ()
    uuids = _uuids(library, handle)
    found = []
    for instance in _instances(library, handle):
        if len(instance.compute) != 1:
            continue
        ((_, compute, slices),) = instance.compute
        uuid = uuids.get((instance.id, compute))
        if uuid and slices in (0, instance.slices):
            found.append(MigDevice(handle.pci, instance.profile_id, instance.start, uuid, instance.id, compute))
    return tuple(sorted(found, key=lambda device: device.start))


def create_mig_device(library: Library, handle: Handle, profile_id: int, start: int, *, reset_to_toggle: bool) -> MigDevice:
    """The MIG device of a profile at a place, made if it is not there. Raises HardwareError, and leaves nothing then.

    MIG is switched on where that needs no reset of the GPU.
    """
    what = f"GPU {handle.pci}: MIG device of profile {profile_id} at {start}"
    switched = False
    if not _enabled(library, handle):
        if reset_to_toggle:
            raise HardwareError(
                f"{what}: MIG is off, and switching it on needs a reset of the GPU "
                f"(nvidia-smi -i {handle.pci} -mig 1, then a reset or a reboot)"
            )
        _switch(library, handle, _ON)
        switched = True
        # Switching may have taken the GPU from the driver and given it back.
        handle = library.handle(handle.pci)
    try:
        return _make(library, handle, profile_id, start, what)
    except HardwareError:
        if switched:
            _switch_off_if_empty(library, handle)
        raise


def destroy_mig_device(library: Library, handle: Handle, profile_id: int, start: int, *, reset_to_toggle: bool) -> None:
    """Destroy what there is of a MIG device; with a GPU's last one MIG goes off, where that needs no reset."""
    if not _enabled(library, handle):
        return
    for instance in _instances(library, handle):
        if (instance.profile_id, instance.start) == (profile_id, start):
            _remove(library, instance, f"GPU {handle.pci}: MIG device of profile {profile_id} at {start}")
    if not reset_to_toggle:
        _switch_off_if_empty(library, handle)


def disable_mig(library: Library, handle: Handle) -> None:
    """Switch MIG off, unless it is. Raises HardwareError where there are MIG devices, or it needs a reset."""
    if not _enabled(library, handle):
        return
    if _instances(library, handle):
        raise HardwareError(f"GPU {handle.pci}: switching MIG off: there are MIG devices on it")
    _switch(library, handle, _OFF)


# --- steps ------------------------------------------------------------------------------------------------------------


def _make(library: Library, handle: Handle, profile_id: int, start: int, what: str) -> MigDevice:
    nvml = library.nvml
    for instance in _instances(library, handle):
        if (instance.profile_id, instance.start) == (profile_id, start):
            there = next((d for d in mig_devices(library, handle) if d.gpu_instance == instance.id), None)
            if there is not None:
                return there
            _remove(library, instance, what)
    info = next((info for _, info in _profiles(library, handle) if info.id == profile_id), None)
    if info is None:
        raise HardwareError(f"{what}: the GPU has no such profile")
    size = next((size for at, size in placements(library, handle.device, info) if at == start), None)
    if size is None:
        raise HardwareError(f"{what}: the profile cannot start there")
    place = nvml.c_nvmlGpuInstancePlacement_t(start=start, size=size)
    made = library.call(what, nvml.nvmlDeviceCreateGpuInstanceWithPlacement, handle.device, profile_id, byref(place))
    try:
        profile = _whole_compute_profile(library, made, info.sliceCount, what)
        library.call(f"{what}: compute instance", nvml.nvmlGpuInstanceCreateComputeInstance, made, profile)
        identity = library.call(what, nvml.nvmlGpuInstanceGetInfo, made).id
        device = next((d for d in mig_devices(library, handle) if d.gpu_instance == identity), None)
        if device is None:
            raise HardwareError(f"{what}: it was made, but NVML shows no device of it")
    except HardwareError as error:
        _undo(library, handle, made, what, error)
        raise
    return device


def _undo(library: Library, handle: Handle, made: Any, what: str, reason: HardwareError) -> None:
    """Destroy what was begun; if even that fails, its user must know both."""
    identity = library.try_call(library.nvml.nvmlGpuInstanceGetInfo, made)
    half = next((i for i in _instances(library, handle) if identity is not None and i.id == identity.id), None)
    try:
        if half is not None:
            _remove(library, half, what)
        else:
            library.call(what, library.nvml.nvmlGpuInstanceDestroy, made)
    except HardwareError as error:
        raise HardwareError(f"{reason}; undoing it failed, too: {error}") from None


def _remove(library: Library, instance: _Instance, what: str) -> None:
    """Compute instances first: an instance that holds any is in use."""
    nvml = library.nvml
    for compute, _, _ in instance.compute:
        _gone(library, f"{what}: destroying its compute instance", nvml.nvmlComputeInstanceDestroy, compute)
    _gone(library, f"{what}: destroying it", nvml.nvmlGpuInstanceDestroy, instance.handle)


def _gone(library: Library, what: str, call: Callable[[Any], object], handle: Any) -> None:
    def destroy_if_there() -> None:
        with suppress(library.nvml.NVMLError_NotFound):
            call(handle)

    library.call(what, destroy_if_there)


def _whole_compute_profile(library: Library, instance: Any, slices: int, what: str) -> int:
    """The compute instance profile that takes all of a GPU instance."""
    nvml = library.nvml
    for number in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        # A variant with other engines, not the plain one.
        if number == nvml.NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1:
            continue
        ask = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo
        engines = nvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
        info = library.try_call(ask, instance, number, engines)
        if info is None:
            info = library.try_call(ask, instance, number, engines, version=1)
        if info is not None and info.sliceCount == slices:
            return int(info.id)
    raise HardwareError(f"{what}: no compute instance takes all of its {slices} slices")


# --- what there is ----------------------------------------------------------------------------------------------------


def _enabled(library: Library, handle: Handle) -> bool:
    mode = library.try_call(library.nvml.nvmlDeviceGetMigMode, handle.device)
    return mode is not None and mode[0] == _ON


def _profiles(library: Library, handle: Handle) -> Iterator[tuple[int, Any]]:
    seen = set()
    for number in range(library.nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        info = profile_info(library, handle.device, number)
        if info is not None and info.id not in seen:
            seen.add(info.id)
            yield number, info


def _instances(library: Library, handle: Handle) -> list[_Instance]:
    nvml = library.nvml
    found = []
    for _, info in _profiles(library, handle):
        room = (nvml.c_nvmlGpuInstance_t * max(info.instanceCount, 1))()
        count = c_uint(0)
        if library.try_call(nvml.nvmlDeviceGetGpuInstances, handle.device, info.id, room, byref(count)) is None:
            continue
        for instance in room[: count.value]:
            told = library.try_call(nvml.nvmlGpuInstanceGetInfo, instance)
            if told is not None:
                compute = tuple(_compute_instances(library, instance))
                found.append(
                    _Instance(instance, told.id, told.profileId, told.placement.start, info.sliceCount, compute)
                )
    return found


def _compute_instances(library: Library, instance: Any) -> Iterator[tuple[Any, int, int]]:
    nvml = library.nvml
    seen = set()
    for number in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        ask = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo
        info = library.try_call(ask, instance, number, nvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
        if info is None:
            info = library.try_call(ask, instance, number, nvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, version=1)
        if info is None or info.id in seen:
            continue
        seen.add(info.id)
        room = (nvml.c_nvmlComputeInstance_t * max(info.instanceCount, 1))()
        count = c_uint(0)
        if library.try_call(nvml.nvmlGpuInstanceGetComputeInstances, instance, info.id, room, byref(count)) is None:
            continue
        for compute in room[: count.value]:
            told = library.try_call(nvml.nvmlComputeInstanceGetInfo, compute)
            if told is not None:
                yield compute, told.id, told.placement.size


def _uuids(library: Library, handle: Handle) -> dict[tuple[int, int], str]:
    """UUIDs of MIG devices by (GPU instance, compute instance)."""
    nvml = library.nvml
    found = {}
    # Numbers have gaps: one that is free is not found.
    for index in range(library.try_call(nvml.nvmlDeviceGetMaxMigDeviceCount, handle.device) or 0):
        device = library.try_call(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle.device, index)
        if device is None:
            continue
        instance = library.try_call(nvml.nvmlDeviceGetGpuInstanceId, device)
        compute = library.try_call(nvml.nvmlDeviceGetComputeInstanceId, device)
        uuid = text(library.try_call(nvml.nvmlDeviceGetUUID, device))
        if instance is not None and compute is not None and uuid:
            found[instance, compute] = uuid
    return found


def _switch(library: Library, handle: Handle, mode: int) -> None:
    what = f"GPU {handle.pci}: switching MIG {'on' if mode else 'off'}"
    status = library.call(what, library.nvml.nvmlDeviceSetMigMode, handle.device, mode)
    if status != library.nvml.NVML_SUCCESS or _enabled(library, handle) != bool(mode):
        raise HardwareError(f"{what}: it takes effect only after a reset of the GPU; programs may be using it")


def _switch_off_if_empty(library: Library, handle: Handle) -> None:
    """Best effort: a GPU in MIG mode without instances is no use as a whole, but its next MIG device is welcome."""
    if not _instances(library, handle):
        library.try_call(library.nvml.nvmlDeviceSetMigMode, handle.device, _OFF)
