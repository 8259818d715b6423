"""Attributes that all devices of a GPU publish.

An API server rejects a whole slice for one invalid attribute, so invalid values are omitted or truncated here.
"""

from __future__ import annotations

import re

from allotment.fleet.nvidia.gpu import Gpu
from allotment.model.resource import DeviceAttribute

#: Maximum length of a string attribute in bytes.
LONGEST = 64

_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_NUMBERS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})*")


def semver(text: str) -> str:
    """Return a driver's dotted version as three-part semver, as published.

    >>> semver("580.105.08"), semver("12.4")
    ('580.105.8', '12.4.0')
    """
    numbers = [str(int(part)) for part in text.split(".")]
    return ".".join([*numbers, "0", "0"][:3])


def string(value: str | None) -> DeviceAttribute | None:
    """Return a string attribute, or None for an unknown value."""
    cut = (value or "").encode(errors="replace")[:LONGEST].decode(errors="ignore")
    return DeviceAttribute(string=cut) if cut else None


def integer(value: int | None) -> DeviceAttribute | None:
    """Return an integer attribute, or None for an unknown value."""
    return None if value is None else DeviceAttribute(int_=value)


def version(text: str) -> DeviceAttribute | None:
    """Return a version attribute, or None if the text is not dotted numbers."""
    return DeviceAttribute(version=semver(text)) if _NUMBERS.fullmatch(text) else None


def known(values: dict[str, DeviceAttribute | None]) -> dict[str, DeviceAttribute]:
    """Return the attributes that are not None, in alphabetical order, as an API server returns them."""
    return {name: value for name, value in sorted(values.items()) if value is not None}


def place(gpu: Gpu) -> dict[str, DeviceAttribute | None]:
    """Return the topology attributes that all vendors share (KEP-4381)."""
    return {
        "resource.kubernetes.io/numaNode": integer(gpu.numa),
        "resource.kubernetes.io/pciBusID": string(gpu.pci if _PCI.fullmatch(gpu.pci) else None),
        "resource.kubernetes.io/pcieRoot": string(gpu.pcie_root),
    }


def model(gpu: Gpu) -> dict[str, DeviceAttribute | None]:
    """Return the attributes of the GPU model, which its MIG devices repeat."""
    return {
        "addressingMode": string(gpu.addressing_mode),
        "architecture": string(gpu.architecture),
        "brand": string(gpu.brand),
        "cudaComputeCapability": version(gpu.compute_capability),
        "cudaDriverVersion": version(gpu.cuda_driver_version),
        "driverVersion": version(gpu.driver_version),
        "productName": string(gpu.product),
        **place(gpu),
    }
