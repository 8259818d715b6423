"""The parameters of NVIDIA's devices (group ``resource.nvidia.com/v1beta1``), and their validation.

Names and meanings are the vendor's. This module rejects values that are never possible; the driver checks whether a
value suits the allocated devices.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

from allotment.fleet.profiles import MIB
from allotment.model.quantity import Quantity
from allotment.vocabulary.parameters.problem import ParameterProblem, field_problem

VERSION: Final = "resource.nvidia.com/v1beta1"

Strategy: TypeAlias = Literal["TimeSlicing", "MPS"]
Interval: TypeAlias = Literal["Default", "Short", "Medium", "Long"]

#: The driver's feature gate that a sharing strategy needs.
GATES: Final[Mapping[Strategy, str]] = {"TimeSlicing": "TimeSlicingSettings", "MPS": "MPSSupport"}

#: Fields that were added in a later release than their kind.
SINCE: Final[Mapping[tuple[str, ...], str]] = {("sharing", "mpsConfig", "multiUser"): "0.5-dev", ("iommu",): "0.4"}

_GPU_UUID: Final = re.compile(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,3}")


class _Parameters(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base of all parameters: field names as in manifests, no unknown fields."""


class TimeSlicingConfig(_Parameters, frozen=True):
    """The time slice: how long a program may compute before the next one runs."""

    interval: Interval = "Default"


class MpsConfig(_Parameters, frozen=True):
    """The limits of each program that shares a GPU through MPS; by default there are none."""

    default_active_thread_percentage: int | None = None
    default_pinned_device_memory_limit: Quantity | None = None
    default_per_device_pinned_memory_limit: dict[str, Quantity] | None = None
    multi_user: bool = False


class GpuSharing(_Parameters, frozen=True):
    """The way in which programs share a claim's GPUs."""

    strategy: Strategy
    time_slicing_config: TimeSlicingConfig | None = None
    mps_config: MpsConfig | None = None


class MigDeviceSharing(_Parameters, frozen=True):
    """The way in which programs share a claim's MIG devices; time slicing has no settings."""

    strategy: Strategy
    mps_config: MpsConfig | None = None


class GpuConfig(_Parameters, frozen=True):
    """Parameters for whole GPUs."""

    sharing: GpuSharing | None = None


class MigDeviceConfig(_Parameters, frozen=True):
    """Parameters for MIG devices."""

    sharing: MigDeviceSharing | None = None


class Iommu(_Parameters, frozen=True):
    """The interface through which a virtual machine monitor uses a GPU."""

    backend_policy: Literal["LegacyOnly", "PreferIommuFD"] = "LegacyOnly"
    # Renaming to camel case would make it enableApiDevice.
    enable_api_device: bool = field(default=False, name="enableAPIDevice")


class VfioDeviceConfig(_Parameters, frozen=True):
    """Parameters for GPUs that are passed through to virtual machines."""

    iommu: Iommu | None = None


Config: TypeAlias = GpuConfig | MigDeviceConfig | VfioDeviceConfig

KINDS: Final[Mapping[tuple[str, str], type]] = {
    (VERSION, kind.__name__): kind for kind in (GpuConfig, MigDeviceConfig, VfioDeviceConfig)
}

#: Kinds for devices that the driver publishes only with a feature gate.
KIND_GATES: Final[Mapping[str, str]] = {"VfioDeviceConfig": "PassthroughSupport"}


def problems(config: Config, off: Container[str] = ()) -> Iterator[ParameterProblem]:
    """Yield problems of parameters beyond their types; ``off``: the disabled feature gates of the driver."""
    if isinstance(config, VfioDeviceConfig) or config.sharing is None:
        return
    sharing = config.sharing
    gate = GATES[sharing.strategy]
    if gate in off:
        yield field_problem(
            "sharing.strategy",
            f"{sharing.strategy} requires the driver's feature gate {gate}, which is off; enable it "
            f"(featureGates.{gate}=true), or omit sharing, so that the claim's pods share with the default settings",
        )._replace(gate=gate)
    if isinstance(sharing, GpuSharing) and sharing.time_slicing_config is not None and sharing.strategy == "MPS":
        yield field_problem(
            "sharing.timeSlicingConfig", "not allowed with strategy MPS; omit it, or use strategy TimeSlicing"
        )
    if sharing.mps_config is not None:
        if sharing.strategy != "MPS":
            yield field_problem(
                "sharing.mpsConfig", "not allowed with strategy TimeSlicing; omit it, or use strategy MPS"
            )
        yield from _mps_problems(sharing.mps_config)


def _mps_problems(config: MpsConfig) -> Iterator[ParameterProblem]:
    threads = config.default_active_thread_percentage
    if threads is not None and not 0 <= threads <= 100:
        yield field_problem(
            "sharing.mpsConfig.defaultActiveThreadPercentage", f"expected 0 to 100 (percent), found {threads}"
        )
    limit = config.default_pinned_device_memory_limit
    if limit is not None and mebibytes(limit) < 1:
        yield field_problem("sharing.mpsConfig.defaultPinnedDeviceMemoryLimit", too_small(limit))
    for key, limit in (config.default_per_device_pinned_memory_limit or {}).items():
        field = "sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit"
        path = (*field.split("."), key)
        if not _GPU_UUID.fullmatch(key) and not _INDEX.fullmatch(key):
            expected = "expected a device's UUID (GPU-…, MIG-…) or its index in the claim (0, 1, …)"
            yield ParameterProblem(path, f"{field}[{key}]", expected, key=True)
        if mebibytes(limit) < 1:
            yield ParameterProblem(path, f"{field}[{key}]", too_small(limit))


def mebibytes(limit: Quantity) -> int:
    """Return a memory limit in whole MiB, rounded down, as MPS uses it.

    >>> mebibytes(Quantity.parse("5Gi"))
    5120
    """
    return limit.value() // MIB


def too_small(limit: Quantity) -> str:
    """Return the text of the problem of a memory limit below 1 MiB."""
    return f"expected at least 1Mi, found {limit}"
