"""Names of DaemonSets and images by which a program is known to be a driver of devices."""

from __future__ import annotations

import re
from typing import Final

#: ``dra`` as a word: k8s-dra-driver-gpu, dra-example-driver, k8s-gpu-dra-driver.
_DRA: Final = re.compile(r"(?:^|[-/._])dra(?:[-/._:]|$)")
#: The vendors' own.
_OWN: Final = {
    "gpu.nvidia.com": re.compile(r"nvidia[^:]*dra|dra[^:]*nvidia|k8s-dra-driver-gpu"),
    "gpu.amd.com": re.compile(r"k8s-gpu-dra-driver|(amd|rocm)[^:]*dra[-/]|dra[^:]*amd"),
}
_TELLING: Final = {"gpu.nvidia.com": "nvidia-dra", "gpu.amd.com": "dra-amd", "": "dra"}


def is_named_as_driver(name: str) -> bool:
    """Whether a name says that it is a driver's."""
    return _DRA.search(name) is not None


def vendors_driver(name: str) -> str:
    """The driver whose vendor's own program has such a name; empty for all others."""
    return next((driver for driver, known in _OWN.items() if known.search(name)), "")


def telling(name: str) -> str:
    """What a name tells of a driver, and nothing else; empty if nothing.

    >>> telling("acme.example/mirror/nvidia-dra-driver-gpu:v25"), telling("acme-dra-driver"), telling("hydra")
    ('nvidia-dra', 'dra', '')
    """
    driver = vendors_driver(name)
    return _TELLING[driver] if driver or is_named_as_driver(name) else ""
