"""The parameters of AMD's devices (group ``gpu.resource.amd.com/v1alpha1``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

VERSION: Final = "gpu.resource.amd.com/v1alpha1"


class _Parameters(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base of all parameters: field names as in manifests, no unknown fields."""


class GpuConfig(_Parameters, frozen=True):
    """Parameters for GPUs and partitions, without fields: to share a device, several pods use one claim."""


class Iommu(_Parameters, frozen=True):
    """The interface through which a virtual machine uses the device."""

    backend_policy: Literal["LegacyOnly", "PreferIommuFD"] = "LegacyOnly"


class VfioDeviceConfig(_Parameters, frozen=True):
    """Parameters for GPUs that are passed through to virtual machines."""

    iommu: Iommu = Iommu()


Config: TypeAlias = GpuConfig | VfioDeviceConfig

KINDS: Final[Mapping[tuple[str, str], type]] = {
    (VERSION, "GpuConfig"): GpuConfig,
    (VERSION, "VfioDeviceConfig"): VfioDeviceConfig,
}

#: Kinds for devices that the driver publishes only with a feature gate.
KIND_GATES: Final[Mapping[str, str]] = {"VfioDeviceConfig": "VFIOPassthrough"}
