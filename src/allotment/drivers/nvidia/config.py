"""The parameters that claims and classes may carry for NVIDIA's devices, and what is asked of them.

Names and meanings are the vendor's own (group ``resource.nvidia.com/v1beta1``). Whether a value is possible at all is
decided here; whether it suits the devices that a claim was given, when its preparation is planned.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct, field

from allotment.drivers.driver import Refused
from allotment.fleet.profiles import MIB
from allotment.model.quantity import Quantity

VERSION: Final = "resource.nvidia.com/v1beta1"

Strategy: TypeAlias = Literal["TimeSlicing", "MPS"]
Interval: TypeAlias = Literal["Default", "Short", "Medium", "Long"]

#: As ``nvidia-smi compute-policy --set-timeslice`` counts.
INTERVALS: Final[Mapping[Interval, int]] = {"Default": 0, "Short": 1, "Medium": 2, "Long": 3}

_GPU_UUID: Final = re.compile(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,3}")


class Gates(NamedTuple):
    """Feature gates of the vendor's driver, by their names there. Off upstream unless asked for, on here."""

    time_slicing_settings: bool = True
    mps_support: bool = True

    def allows(self, strategy: Strategy) -> bool:
        """Whether a way of sharing is switched on."""
        return self.time_slicing_settings if strategy == "TimeSlicing" else self.mps_support


ALL_ON: Final = Gates()

_GATES: Final[Mapping[Strategy, str]] = {"TimeSlicing": "TimeSlicingSettings", "MPS": "MPSSupport"}
_SWITCHES: Final[Mapping[str, bool]] = {"true": True, "false": False}


def gates_of(text: str) -> Gates:
    """Feature gates as the vendor's driver is told of them; those that are not named are on. Raises ValueError.

    >>> gates_of("TimeSlicingSettings=false")
    Gates(time_slicing_settings=False, mps_support=True)
    """
    found = dict.fromkeys(_GATES.values(), True)
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        if name not in found or value not in _SWITCHES:
            raise ValueError(f"wanted NAME=true or NAME=false with one of {', '.join(found)}, found {part!r}")
        found[name] = _SWITCHES[value]
    return Gates(*found.values())


class _Parameters(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Names as in manifests; nothing unknown."""


class TimeSlicingConfig(_Parameters, frozen=True):
    """How long a program may compute before it is another one's turn."""

    interval: Interval = "Default"


class MpsConfig(_Parameters, frozen=True):
    """What each program that shares a GPU by MPS may have of it; by default everything."""

    default_active_thread_percentage: int | None = None
    default_pinned_device_memory_limit: Quantity | None = None
    default_per_device_pinned_memory_limit: dict[str, Quantity] | None = None
    multi_user: bool = False


class GpuSharing(_Parameters, frozen=True):
    """How the programs of one claim share its GPUs."""

    strategy: Strategy
    time_slicing_config: TimeSlicingConfig | None = None
    mps_config: MpsConfig | None = None


class MigDeviceSharing(_Parameters, frozen=True):
    """How the programs of one claim share its MIG devices; they take turns anyway, without settings."""

    strategy: Strategy
    mps_config: MpsConfig | None = None


class GpuConfig(_Parameters, frozen=True):
    """Parameters for whole GPUs."""

    sharing: GpuSharing | None = None


class MigDeviceConfig(_Parameters, frozen=True):
    """Parameters for MIG devices."""

    sharing: MigDeviceSharing | None = None


class Iommu(_Parameters, frozen=True):
    """How a virtual machine's monitor gets at a GPU."""

    backend_policy: Literal["LegacyOnly", "PreferIommuFD"] = "LegacyOnly"
    # Renaming to camel case would make it enableApiDevice.
    enable_api_device: bool = field(default=False, name="enableAPIDevice")


class VfioDeviceConfig(_Parameters, frozen=True):
    """Parameters for GPUs that are handed to virtual machines."""

    iommu: Iommu | None = None


Config: TypeAlias = GpuConfig | MigDeviceConfig | VfioDeviceConfig

CONFIGS: Final[Mapping[tuple[str, str], type]] = {
    (VERSION, kind.__name__): kind for kind in (GpuConfig, MigDeviceConfig, VfioDeviceConfig)
}


# --- what must hold ---------------------------------------------------------------------------------------------------


def validate(config: Config, gates: Gates) -> None:
    """Check parameters by themselves. Raises Refused: for good, unless it is the node that lets them down."""
    if isinstance(config, VfioDeviceConfig) or config.sharing is None:
        return
    sharing = config.sharing
    if not gates.allows(sharing.strategy):
        gate = _GATES[sharing.strategy]
        raise Refused(  # not for good: whoever runs the driver can switch it on
            f"sharing.strategy: {sharing.strategy} is switched off on this node: the driver's feature gate {gate} is "
            f"off, as it is in the vendor's driver by default; switch it on (featureGates.{gate}=true), or leave "
            "sharing out and let the claim's pods share the GPU without settings",
            permanent=False,
        )
    if isinstance(sharing, GpuSharing) and sharing.time_slicing_config is not None and sharing.strategy == "MPS":
        raise _wrong("sharing.timeSlicingConfig: not with strategy MPS; leave it out, or use strategy TimeSlicing")
    if sharing.mps_config is not None:
        if sharing.strategy != "MPS":
            raise _wrong("sharing.mpsConfig: not with strategy TimeSlicing; leave it out, or use strategy MPS")
        _validate_mps(sharing.mps_config)


def _validate_mps(config: MpsConfig) -> None:
    threads = config.default_active_thread_percentage
    if threads is not None and not 0 <= threads <= 100:
        raise _wrong(f"sharing.mpsConfig.defaultActiveThreadPercentage: wanted 0 to 100 (percent), found {threads}")
    if config.default_pinned_device_memory_limit is not None:
        mebibytes(config.default_pinned_device_memory_limit, "sharing.mpsConfig.defaultPinnedDeviceMemoryLimit")
    for key, limit in (config.default_per_device_pinned_memory_limit or {}).items():
        place = f"sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit[{key}]"
        if not _GPU_UUID.fullmatch(key) and not _INDEX.fullmatch(key):
            raise _wrong(f"{place}: wanted a device's UUID (GPU-…, MIG-…) or its index among the claim's (0, 1, …)")
        mebibytes(limit, place)


def mebibytes(limit: Quantity, place: str) -> int:
    """A memory limit as MPS takes it, in whole MiB, rounded down. Raises Refused below one.

    >>> mebibytes(Quantity.parse("5Gi"), "limit")
    5120
    """
    whole = limit.value() // MIB
    if whole < 1:
        raise _wrong(f"{place}: wanted at least 1Mi, found {limit}")
    return whole


def memory_limits(uuids: Sequence[str], default: int | None, by_device: Mapping[str, int]) -> dict[str, int]:
    """Memory limits in MiB by UUID, of devices of one claim; ``by_device`` has UUIDs or indices of the sorted UUIDs.

    Raises Refused for a device that the claim does not have.

    >>> memory_limits(["GPU-b", "GPU-a"], 10, {"1": 20})
    {'GPU-a': 10, 'GPU-b': 20}
    """
    devices = sorted(uuids)
    limits = {} if default is None else dict.fromkeys(devices, default)
    for key, limit in by_device.items():
        if key in devices:
            limits[key] = limit
        elif key.isdigit() and int(key) < len(devices):
            limits[devices[int(key)]] = limit
        else:
            raise _wrong(
                f"sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit[{key}]: the claim has no such device; these "
                f"parameters are for {', '.join(f'{index} ({uuid})' for index, uuid in enumerate(devices))}"
            )
    return limits


def _wrong(text: str) -> Refused:
    return Refused(text, permanent=True)
