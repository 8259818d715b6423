"""Creates and destroys MIG devices through NVML, without leaving incomplete ones.

A MIG device is a GPU instance, which has memory and engines, with a compute instance over all of it. A process that is
killed between the two leaves a GPU instance that blocks its placement. The next creation or destruction of the MIG
device at that placement removes it.
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
    """An existing GPU instance. ``compute``: its compute instances as (handle, id, slices)."""

    handle: Any
    id: int
    profile_id: int
    start: int
    slices: int
    compute: tuple[tuple[Any, int, int], ...]


def mig_devices(library: Library, handle: Handle) -> tuple[MigDevice, ...]:
    """The MIG devices of a GPU by start. GPU instances with several compute instances were made by other programs, and
    are left out.
    """
    if not _enabled(library, handle):
        return ()
    uuids = _uuids(library, handle)
    devices = []
    for instance in _instances(library, handle):
        if len(instance.compute) != 1:
            continue
        ((_, compute, slices),) = instance.compute
        uuid = uuids.get((instance.id, compute))
        if uuid and slices in (0, instance.slices):
            devices.append(MigDevice(handle.pci, instance.profile_id, instance.start, uuid, instance.id, compute))
    return tuple(sorted(devices, key=lambda device: device.start))


def create_mig_device(
    library: Library, handle: Handle, profile_id: int, start: int, *, reset_to_toggle: bool
) -> MigDevice:
    """Create the MIG device of a profile at a start, or return the existing one. Raises HardwareError, and leaves
    nothing then.

    MIG is enabled if that needs no reset of the GPU.
    """
    action = f"GPU {handle.pci}: MIG device with profile {profile_id} at start {start}"
    switched_on = False
    if not _enabled(library, handle):
        if reset_to_toggle:
            raise HardwareError(
                f"{action}: MIG is disabled, and enabling it requires a GPU reset "
                f"(nvidia-smi -i {handle.pci} -mig 1, then a reset or a reboot)"
            )
        _switch(library, handle, _ON)
        switched_on = True
        # Enabling MIG may have rebound the GPU to the driver.
        handle = library.handle(handle.pci)
    try:
        return _create(library, handle, profile_id, start, action)
    except HardwareError:
        if switched_on:
            _switch_off_if_empty(library, handle)
        raise


def destroy_mig_device(library: Library, handle: Handle, profile_id: int, start: int, *, reset_to_toggle: bool) -> None:
    """Destroy a complete or incomplete MIG device; after a GPU's last one MIG is disabled, if that needs no reset."""
    if not _enabled(library, handle):
        return
    for instance in _instances(library, handle):
        if (instance.profile_id, instance.start) == (profile_id, start):
            _destroy_instance(
                library, instance, f"GPU {handle.pci}: MIG device with profile {profile_id} at start {start}"
            )
    if not reset_to_toggle:
        _switch_off_if_empty(library, handle)


def disable_mig(library: Library, handle: Handle) -> None:
    """Disable MIG if it is enabled. Raises HardwareError if the GPU has MIG devices, or a reset is needed."""
    if not _enabled(library, handle):
        return
    if _instances(library, handle):
        raise HardwareError(f"GPU {handle.pci}: cannot disable MIG: the GPU has MIG devices")
    _switch(library, handle, _OFF)


# --- steps ------------------------------------------------------------------------------------------------------------


def _create(library: Library, handle: Handle, profile_id: int, start: int, action: str) -> MigDevice:
    nvml = library.nvml
    for instance in _instances(library, handle):
        if (instance.profile_id, instance.start) == (profile_id, start):
            existing = next((d for d in mig_devices(library, handle) if d.gpu_instance == instance.id), None)
            if existing is not None:
                return existing
            _destroy_instance(library, instance, action)
    info = next((info for _, info in _profiles(library, handle) if info.id == profile_id), None)
    if info is None:
        raise HardwareError(f"{action}: the GPU has no such profile")
    size = next((size for first_slice, size in placements(library, handle.device, info) if first_slice == start), None)
    if size is None:
        raise HardwareError(f"{action}: the profile cannot be placed there")
    placement = nvml.c_nvmlGpuInstancePlacement_t(start=start, size=size)
    instance_handle = library.call(
        action, nvml.nvmlDeviceCreateGpuInstanceWithPlacement, handle.device, profile_id, byref(placement)
    )
    try:
        profile = _whole_compute_profile(library, instance_handle, info.sliceCount, action)
        library.call(
            f"{action}: cannot create its compute instance",
            nvml.nvmlGpuInstanceCreateComputeInstance,
            instance_handle,
            profile,
        )
        instance_id = library.call(action, nvml.nvmlGpuInstanceGetInfo, instance_handle).id
        device = next((d for d in mig_devices(library, handle) if d.gpu_instance == instance_id), None)
        if device is None:
            raise HardwareError(f"{action}: it was created, but NVML does not list it")
    except HardwareError as error:
        _roll_back(library, handle, instance_handle, action, error)
        raise
    return device


def _roll_back(library: Library, handle: Handle, instance_handle: Any, action: str, reason: HardwareError) -> None:
    """Destroy an incomplete MIG device; if that fails, too, the error contains both failures."""
    info = library.try_call(library.nvml.nvmlGpuInstanceGetInfo, instance_handle)
    partial = next((i for i in _instances(library, handle) if info is not None and i.id == info.id), None)
    try:
        if partial is not None:
            _destroy_instance(library, partial, action)
        else:
            library.call(action, library.nvml.nvmlGpuInstanceDestroy, instance_handle)
    except HardwareError as error:
        raise HardwareError(f"{reason}; the device cannot be destroyed either: {error}") from None


def _destroy_instance(library: Library, instance: _Instance, action: str) -> None:
    """Destroy compute instances first: a GPU instance with compute instances is in use."""
    nvml = library.nvml
    for compute, _, _ in instance.compute:
        _destroy_if_present(
            library, f"{action}: cannot destroy its compute instance", nvml.nvmlComputeInstanceDestroy, compute
        )
    _destroy_if_present(library, f"{action}: cannot destroy it", nvml.nvmlGpuInstanceDestroy, instance.handle)


def _destroy_if_present(library: Library, action: str, function: Callable[[Any], object], handle: Any) -> None:
    def destroy() -> None:
        with suppress(library.nvml.NVMLError_NotFound):
            function(handle)

    library.call(action, destroy)


def _whole_compute_profile(library: Library, instance: Any, slices: int, action: str) -> int:
    """The id of the compute instance profile that uses all slices of a GPU instance."""
    nvml = library.nvml
    for number in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        # A variant with other engines.
        if number == nvml.NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1:
            continue
        function = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo
        engines = nvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
        info = library.try_call(function, instance, number, engines)
        if info is None:
            info = library.try_call(function, instance, number, engines, version=1)
        if info is not None and info.sliceCount == slices:
            return int(info.id)
    raise HardwareError(f"{action}: no compute instance profile uses all of its {slices} slices")


# --- queries ----------------------------------------------------------------------------------------------------------


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
    instances = []
    for _, info in _profiles(library, handle):
        buffer = (nvml.c_nvmlGpuInstance_t * max(info.instanceCount, 1))()
        count = c_uint(0)
        if library.try_call(nvml.nvmlDeviceGetGpuInstances, handle.device, info.id, buffer, byref(count)) is None:
            continue
        for instance in buffer[: count.value]:
            detail = library.try_call(nvml.nvmlGpuInstanceGetInfo, instance)
            if detail is not None:
                compute = tuple(_compute_instances(library, instance))
                instances.append(
                    _Instance(instance, detail.id, detail.profileId, detail.placement.start, info.sliceCount, compute)
                )
    return instances


def _compute_instances(library: Library, instance: Any) -> Iterator[tuple[Any, int, int]]:
    nvml = library.nvml
    seen = set()
    for number in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        function = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo
        info = library.try_call(function, instance, number, nvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
        if info is None:
            info = library.try_call(
                function, instance, number, nvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, version=1
            )
        if info is None or info.id in seen:
            continue
        seen.add(info.id)
        buffer = (nvml.c_nvmlComputeInstance_t * max(info.instanceCount, 1))()
        count = c_uint(0)
        if library.try_call(nvml.nvmlGpuInstanceGetComputeInstances, instance, info.id, buffer, byref(count)) is None:
            continue
        for compute in buffer[: count.value]:
            detail = library.try_call(nvml.nvmlComputeInstanceGetInfo, compute)
            if detail is not None:
                yield compute, detail.id, detail.placement.size


def _uuids(library: Library, handle: Handle) -> dict[tuple[int, int], str]:
    """UUIDs of MIG devices by (GPU instance, compute instance)."""
    nvml = library.nvml
    uuids = {}
    # Indexes have gaps.
    for index in range(library.try_call(nvml.nvmlDeviceGetMaxMigDeviceCount, handle.device) or 0):
        device = library.try_call(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle.device, index)
        if device is None:
            continue
        instance = library.try_call(nvml.nvmlDeviceGetGpuInstanceId, device)
        compute = library.try_call(nvml.nvmlDeviceGetComputeInstanceId, device)
        uuid = text(library.try_call(nvml.nvmlDeviceGetUUID, device))
        if instance is not None and compute is not None and uuid:
            uuids[instance, compute] = uuid
    return uuids


def _switch(library: Library, handle: Handle, mode: int) -> None:
    action = f"GPU {handle.pci}: cannot {'enable' if mode else 'disable'} MIG"
    status = library.call(action, library.nvml.nvmlDeviceSetMigMode, handle.device, mode)
    if status != library.nvml.NVML_SUCCESS or _enabled(library, handle) != bool(mode):
        raise HardwareError(f"{action}: the change requires a GPU reset; programs may be using the GPU")


def _switch_off_if_empty(library: Library, handle: Handle) -> None:
    """Disable MIG on a GPU without instances, ignoring errors: in MIG mode it cannot be used as a whole."""
    if not _instances(library, handle):
        library.try_call(library.nvml.nvmlDeviceSetMigMode, handle.device, _OFF)
