"""NVIDIA's driver as a program on the fake NVML: ``python -m tests.nvml.driver_program FOLDER MODE --node NAME …``.

FOLDER is a host that :mod:`.machine` built. The program behaves like ``allot driver run nvidia``, except for the
location of the kernel's files.
"""

from __future__ import annotations

import sys
from pathlib import Path

from allotment.drivers.main import run
from allotment.drivers.nvidia.driver import NvidiaDriver
from allotment.drivers.nvidia.host import HostHardware
from allotment.fleet.modes import nvidia_mode
from tests.nvml.machine import roots_of

if __name__ == "__main__":
    folder, mode = Path(sys.argv[1]), nvidia_mode(sys.argv[2])
    assert mode is not None, f"no mode {sys.argv[2]}"
    run(NvidiaDriver(HostHardware(roots_of(folder)), mode), sys.argv[3:])
