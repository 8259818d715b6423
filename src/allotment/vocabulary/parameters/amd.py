"""The parameters of AMD's devices (group ``gpu.resource.amd.com/v1alpha1``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

VERSION: Final = "gpu.resource.amd.com/v1alpha1"


class _Parameters(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Names as in manifests; nothing unknown."""


class GpuConfig(_Parameters, frozen=True):
    """For GPUs and partitions. The vendor has given it no fields: sharing is several pods on one claim."""


class Iommu(_Parameters, frozen=True):
    """Through which interface a virtual machine gets the device."""

    backend_policy: Literal["LegacyOnly", "PreferIommuFD"] = "LegacyOnly"


class VfioDeviceConfig(_Parameters, frozen=True):
    """For GPUs that are handed to virtual machines."""

    iommu: Iommu = Iommu()


Config: TypeAlias = GpuConfig | VfioDeviceConfig

KINDS: Final[Mapping[tuple[str, str], type]] = {
    (VERSION, "GpuConfig"): GpuConfig,
    (VERSION, "VfioDeviceConfig"): VfioDeviceConfig,
}

#: Kinds that are for devices which only a gate of the driver brings.
KIND_GATES: Final[Mapping[str, str]] = {"VfioDeviceConfig": "VFIOPassthrough"}
