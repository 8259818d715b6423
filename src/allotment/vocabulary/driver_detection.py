"""Detects device drivers by the names of their DaemonSets and images."""

from __future__ import annotations

import re
from typing import Final

#: ``dra`` as a separate word: k8s-dra-driver-gpu, dra-example-driver, k8s-gpu-dra-driver.
_DRA: Final = re.compile(r"(?:^|[-/._])dra(?:[-/._:]|$)")
#: The vendors' own drivers.
_VENDOR_PATTERNS: Final = {
    "gpu.nvidia.com": re.compile(r"nvidia[^:]*dra|dra[^:]*nvidia|k8s-dra-driver-gpu"),
    "gpu.amd.com": re.compile(r"k8s-gpu-dra-driver|(amd|rocm)[^:]*dra[-/]|dra[^:]*amd"),
}
_DRIVER_PARTS: Final = {"gpu.nvidia.com": "nvidia-dra", "gpu.amd.com": "dra-amd", "": "dra"}


def is_named_as_driver(name: str) -> bool:
    """Whether the name of a DaemonSet or image contains ``dra`` as a word."""
    return _DRA.search(name) is not None


def vendor_driver(name: str) -> str:
    """Return the driver whose vendor's own program has such a name; empty for all others."""
    return next((driver for driver, known in _VENDOR_PATTERNS.items() if known.search(name)), "")


def driver_part(name: str) -> str:
    """Return the part of a name that identifies a driver; empty if there is none. Redacted names keep only this part.

    >>> (
    ...     driver_part("acme.example/mirror/nvidia-dra-driver-gpu:v25"),
    ...     driver_part("acme-dra-driver"),
    ...     driver_part("hydra"),
    ... )
    ('nvidia-dra', 'dra', '')
    """
    driver = vendor_driver(name)
    return _DRIVER_PARTS[driver] if driver or is_named_as_driver(name) else ""
