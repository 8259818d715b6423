"""What every device made of a GPU says of it.

An API server refuses a whole slice for one bad attribute, so what it would not take is left out or cut here.
"""

from __future__ import annotations

import re

from allotment.fleet.nvidia.gpu import Gpu
from allotment.model.resource import DeviceAttribute

#: The longest string that an attribute may have, in bytes.
LONGEST = 64

_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_NUMBERS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})*")


def semver(text: str) -> str:
    """A driver's dotted number as the three-part semver that it is published as.

    >>> semver("580.105.08"), semver("12.4")
    ('580.105.8', '12.4.0')
    """
    numbers = [str(int(part)) for part in text.split(".")]
    return ".".join([*numbers, "0", "0"][:3])


def string(value: str | None) -> DeviceAttribute | None:
    """A string attribute; none of what is unknown."""
    cut = (value or "").encode(errors="replace")[:LONGEST].decode(errors="ignore")
    return DeviceAttribute(string=cut) if cut else None


def integer(value: int | None) -> DeviceAttribute | None:
    """An integer attribute; none of what is unknown."""
    return None if value is None else DeviceAttribute(int_=value)


def version(text: str) -> DeviceAttribute | None:
    """A version attribute; none of what is not dotted numbers."""
    return DeviceAttribute(version=semver(text)) if _NUMBERS.fullmatch(text) else None


def known(values: dict[str, DeviceAttribute | None]) -> dict[str, DeviceAttribute]:
    """Those attributes that are known, in alphabetical order, as a server returns them."""
    return {name: value for name, value in sorted(values.items()) if value is not None}


def place(gpu: Gpu) -> dict[str, DeviceAttribute | None]:
    """Where a GPU sits, in the attributes that all vendors share (KEP-4381)."""
    return {
        "resource.kubernetes.io/numaNode": integer(gpu.numa),
        "resource.kubernetes.io/pciBusID": string(gpu.pci if _PCI.fullmatch(gpu.pci) else None),
        "resource.kubernetes.io/pcieRoot": string(gpu.pcie_root),
    }


def model(gpu: Gpu) -> dict[str, DeviceAttribute | None]:
    """What a GPU is; its pieces repeat it."""
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
