"""The parameters of NVIDIA's devices (group ``resource.nvidia.com/v1beta1``), names and meanings the vendor's own.

Whether a value is possible at all is decided here; whether it suits the devices that a claim was given, by the driver.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

from allotment.fleet.profiles import MIB
from allotment.model.quantity import Quantity
from allotment.vocabulary.parameters.problem import Problem
from allotment.vocabulary.parameters.problem import field as at_field

VERSION: Final = "resource.nvidia.com/v1beta1"

Strategy: TypeAlias = Literal["TimeSlicing", "MPS"]
Interval: TypeAlias = Literal["Default", "Short", "Medium", "Long"]

#: The driver's feature gate that a way of sharing needs.
GATES: Final[Mapping[Strategy, str]] = {"TimeSlicing": "TimeSlicingSettings", "MPS": "MPSSupport"}

#: Fields that came with a later release than their kind.
SINCE: Final[Mapping[tuple[str, ...], str]] = {("sharing", "mpsConfig", "multiUser"): "0.5-dev", ("iommu",): "0.4"}

_GPU_UUID: Final = re.compile(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,3}")


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

KINDS: Final[Mapping[tuple[str, str], type]] = {
    (VERSION, kind.__name__): kind for kind in (GpuConfig, MigDeviceConfig, VfioDeviceConfig)
}

#: Kinds that are for devices which only a gate of the driver brings.
KIND_GATES: Final[Mapping[str, str]] = {"VfioDeviceConfig": "PassthroughSupport"}


def problems(config: Config, off: Container[str] = ()) -> Iterator[Problem]:
    """What is wrong with parameters by themselves; ``off``: the driver's gates that are off."""
    if isinstance(config, VfioDeviceConfig) or config.sharing is None:
        return
    sharing = config.sharing
    gate = GATES[sharing.strategy]
    if gate in off:
        yield at_field(
            "sharing.strategy",
            f"{sharing.strategy} needs the driver's feature gate {gate}, which is off; switch it on "
            f"(featureGates.{gate}=true), or leave sharing out and let the claim's pods share without settings",
        )._replace(gate=gate)
    if isinstance(sharing, GpuSharing) and sharing.time_slicing_config is not None and sharing.strategy == "MPS":
        yield at_field("sharing.timeSlicingConfig", "not with strategy MPS; omit it, or use strategy TimeSlicing")
    if sharing.mps_config is not None:
        if sharing.strategy != "MPS":
            yield at_field("sharing.mpsConfig", "not with strategy TimeSlicing; omit it, or use strategy MPS")
        yield from _mps_problems(sharing.mps_config)


def _mps_problems(config: MpsConfig) -> Iterator[Problem]:
    threads = config.default_active_thread_percentage
    if threads is not None and not 0 <= threads <= 100:
        yield at_field(
            "sharing.mpsConfig.defaultActiveThreadPercentage", f"expected 0 to 100 (percent), found {threads}"
        )
    limit = config.default_pinned_device_memory_limit
    if limit is not None and mebibytes(limit) < 1:
        yield at_field("sharing.mpsConfig.defaultPinnedDeviceMemoryLimit", too_small(limit))
    for key, limit in (config.default_per_device_pinned_memory_limit or {}).items():
        place = "sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit"
        at = (*place.split("."), key)
        if not _GPU_UUID.fullmatch(key) and not _INDEX.fullmatch(key):
            wanted = "expected a device's UUID (GPU-…, MIG-…) or its index among the claim's (0, 1, …)"
            yield Problem(at, f"{place}[{key}]", wanted, key=True)
        if mebibytes(limit) < 1:
            yield Problem(at, f"{place}[{key}]", too_small(limit))


def mebibytes(limit: Quantity) -> int:
    """A memory limit as MPS takes it, in whole MiB, rounded down.

    >>> mebibytes(Quantity.parse("5Gi"))
    5120
    """
    return limit.value() // MIB


def too_small(limit: Quantity) -> str:
    """What is said of a memory limit of no whole MiB."""
    return f"expected at least 1Mi, found {limit}"
