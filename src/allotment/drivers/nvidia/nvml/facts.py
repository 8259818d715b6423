"""Reads the facts of a GPU from NVML."""

from __future__ import annotations

from ctypes import byref, c_uint
from typing import Any, NamedTuple

from allotment.drivers.nvidia.nvml.library import Handle, Library, text
from allotment.fleet.nvidia import Fabric, Gpu
from allotment.fleet.profiles import MIB, Mig, MigProfile, accelerators


class InstanceProfile(NamedTuple):
    """The slices and the name suffix of a GPU instance profile."""

    slices: int
    suffix: str = ""


#: NVML's ``NVML_GPU_INSTANCE_PROFILE_*`` by number, which is not the profile's id that tools show.
INSTANCE_PROFILES: tuple[InstanceProfile, ...] = (
    InstanceProfile(1),
    InstanceProfile(2),
    InstanceProfile(3),
    InstanceProfile(4),
    InstanceProfile(7),
    InstanceProfile(8),
    InstanceProfile(6),
    InstanceProfile(1, "+me"),
    InstanceProfile(2, "+me"),
    InstanceProfile(1),  # twice the memory
    InstanceProfile(1, "+gfx"),
    InstanceProfile(2, "+gfx"),
    InstanceProfile(4, "+gfx"),
    InstanceProfile(1, "-me"),
    InstanceProfile(2, "-me"),
    InstanceProfile(1, "+me.all"),
    InstanceProfile(2, "+me.all"),
    InstanceProfile(3, "+gfx"),
)


def profile_name(number: int, slices: int, memory_mib: int, total_bytes: int) -> str:
    """The name of NVML's profile ``number``, with its slices and memory, on a GPU of ``total_bytes``.

    The memory is counted in eighths of the GPU, rounded up, of the GPU's GiB, rounded up.

    >>> profile_name(7, 1, 4864, 40960 * MIB)
    '1g.5gb+me'
    >>> profile_name(2, 3, 71168, 143771 * MIB)  # 70.5, and half is rounded up
    '3g.71gb'
    """
    eighths = -(-memory_mib * MIB * 8 // total_bytes)
    label = -(-total_bytes >> 30)
    # floor(eighths / 8 * label + 1/2) in whole numbers
    gigabytes = (eighths * label + 4) // 8
    suffix = INSTANCE_PROFILES[number].suffix if 0 <= number < len(INSTANCE_PROFILES) else ""
    return f"{slices}g.{gigabytes}gb{suffix}"


_BRANDS = (
    "Unknown", "Quadro", "Tesla", "NVS", "Grid", "GeForce", "Titan", "NvidiaVApps", "NvidiaVPC", "NvidiaVCS",
    "NvidiaVWS", "NvidiaCloudGaming", "QuadroRTX", "NvidiaRTX", "Nvidia", "GeForceRTX", "TitanRTX",
)  # fmt: skip

_ARCHITECTURES = {
    2: "Kepler", 3: "Maxwell", 4: "Pascal", 5: "Volta", 6: "Turing", 7: "Ampere", 8: "Ada Lovelace", 9: "Hopper",
    10: "Blackwell",
}  # fmt: skip

_ADDRESSING = {0: "None", 1: "HMM", 2: "ATS"}

#: CUDA cores of one multiprocessor, if not 128.
_CORES = {"6.0": 64, "7.0": 64, "7.2": 64, "7.5": 64, "8.0": 64}

_FABRIC_COMPLETED = 3


def facts_of(library: Library, handle: Handle) -> Gpu | None:
    """A GPU's facts from NVML. None if not even its UUID can be read: the GPU is lost.

    Its location (NUMA node, PCIe root) is not known to NVML, see :mod:`allotment.drivers.nvidia.host.sysfs`.
    """
    nvml, device, query = library.nvml, handle.device, library.try_call
    uuid = text(query(nvml.nvmlDeviceGetUUID, device))
    if not uuid:
        return None
    memory = query(nvml.nvmlDeviceGetMemoryInfo, device)
    capability = query(nvml.nvmlDeviceGetCudaComputeCapability, device)
    capability_text = ".".join(map(str, capability)) if capability else ""
    architecture = _ARCHITECTURES.get(query(nvml.nvmlDeviceGetArchitecture, device) or 0, "Unknown")
    product = text(query(nvml.nvmlDeviceGetName, device))
    minor = query(nvml.nvmlDeviceGetMinorNumber, device)
    total = int(memory.total) if memory is not None and memory.total else None
    mode = query(nvml.nvmlDeviceGetMigMode, device)
    pci = query(nvml.nvmlDeviceGetPciInfo, device)
    bar = query(nvml.nvmlDeviceGetBAR1MemoryInfo, device)
    return Gpu(
        pci=handle.pci,
        uuid=uuid,
        minor=handle.number if minor is None else minor,
        product=product,
        brand=_brand(query(nvml.nvmlDeviceGetBrand, device)),
        architecture=architecture,
        compute_capability=capability_text,
        driver_version=text(query(nvml.nvmlSystemGetDriverVersion)),
        cuda_driver_version=_cuda(query(nvml.nvmlSystemGetCudaDriverVersion)),
        memory_bytes=total,
        multiprocessors=(query(nvml.nvmlDeviceGetNumGpuCores, device) or 0) // _CORES.get(capability_text, 128),
        device_id=f"0x{pci.pciDeviceId >> 16:04x}" if pci is not None else "",
        # A GPU without MIG reports that the mode is not supported.
        mig=None if mode is None else _mig(library, device, product, architecture, total),
        mig_enabled=mode is not None and mode[0] == 1,
        fabric=_fabric(library, device),
        addressing_mode=_addressing(library, device),
        bar_bytes=int(bar.bar1Total) if bar is not None and bar.bar1Total else None,
    )


def uuid_of(library: Library, handle: Handle) -> str:
    """A GPU's UUID. Raises HardwareError."""
    return text(library.call(f"GPU {handle.pci}: cannot read its UUID", library.nvml.nvmlDeviceGetUUID, handle.device))


def _brand(number: int | None) -> str:
    return _BRANDS[number] if number is not None and 0 <= number < len(_BRANDS) else "Unknown"


def _cuda(number: int | None) -> str:
    return f"{number // 1000}.{number % 1000 // 10}" if number else ""


def _addressing(library: Library, device: Any) -> str | None:
    function = getattr(library.nvml, "nvmlDeviceGetAddressingMode", None)
    mode = library.try_call(function, device) if function else None
    return None if mode is None else _ADDRESSING.get(mode)


def _fabric(library: Library, device: Any) -> Fabric | None:
    nvml = library.nvml
    info = nvml.c_nvmlGpuFabricInfoV_t()
    if library.try_call(nvml.nvmlDeviceGetGpuFabricInfoV, device, byref(info)) is None:
        return None
    cluster = bytes(info.clusterUuid).hex()
    if info.state != _FABRIC_COMPLETED or info.status != nvml.NVML_SUCCESS or not cluster.strip("0"):
        return None
    parts = (cluster[:8], cluster[8:12], cluster[12:16], cluster[16:20], cluster[20:])
    return Fabric("-".join(parts), int(info.cliqueId))


# --- MIG ----------------------------------------------------------------------------------------------------------


def _mig(library: Library, device: Any, product: str, architecture: str, total: int | None) -> Mig | None:
    known = next((a.mig for a in accelerators().values() if a.product == product and a.mig), None)
    profiles: dict[int, MigProfile] = {}
    for number in range(library.nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        info = profile_info(library, device, number)
        if info is None or info.id in profiles:
            continue
        name = text(getattr(info, "name", "")).removeprefix("MIG ")
        if not name and total:
            name = profile_name(number, info.sliceCount, info.memorySizeMB, total)
        slots = placements(library, device, info) or _known_placements(known, info.id)
        # "c." in the name: the profile's compute instance would not use the whole GPU instance.
        if not name or "c." in name or not slots:
            continue
        profiles[info.id] = MigProfile(
            name=name,
            gi_id=info.id,
            max_instances=info.instanceCount,
            starts=tuple(start for start, _ in slots),
            size=slots[0][1],
            memory_mib=int(info.memorySizeMB),
            multiprocessors=info.multiprocessorCount,
            copy_engines=info.copyEngineCount,
            decoders=info.decoderCount,
            encoders=info.encoderCount,
            jpeg_engines=info.jpegCount,
            ofa_engines=info.ofaCount,
        )
    if not profiles:
        return None
    ordered = sorted(profiles.values(), key=lambda profile: (profile.size, profile.memory_mib, profile.name))
    # Before Hopper, the mode takes effect at the next reset of the GPU.
    return Mig(reset_to_toggle=architecture == "Ampere", profiles=tuple(ordered))


def profile_info(library: Library, device: Any, number: int) -> Any | None:
    """NVML's GPU instance profile with that number, with its name if the driver is new enough."""
    function = library.nvml.nvmlDeviceGetGpuInstanceProfileInfo
    info = library.try_call(function, device, number)
    return info if info is not None else library.try_call(function, device, number, version=1)


def placements(library: Library, device: Any, info: Any) -> list[tuple[int, int]]:
    """(start, size) of every possible placement of a profile, sorted; none if the driver does not report them."""
    nvml = library.nvml
    count = c_uint(0)
    function = nvml.nvmlDeviceGetGpuInstancePossiblePlacements
    if library.try_call(function, device, info.id, None, byref(count)) is None or not count.value:
        return []
    slots = (nvml.c_nvmlGpuInstancePlacement_t * count.value)()
    if library.try_call(function, device, info.id, slots, byref(count)) is None:
        return []
    return sorted((slot.start, slot.size) for slot in slots[: count.value])


def _known_placements(known: Mig | None, profile_id: int) -> list[tuple[int, int]]:
    """Placements of known hardware: some drivers report placements only while MIG is enabled."""
    return [
        (start, profile.size)
        for profile in (known.profiles if known else ())
        if profile.gi_id == profile_id
        for start in profile.starts
    ]
