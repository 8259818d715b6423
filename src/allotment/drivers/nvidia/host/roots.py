"""The paths of a host's folders, as this process sees them.

A driver in a container sees the host's folders at other paths; tests use folders of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

#: Folders of programs under a driver's root.
PROGRAM_FOLDERS = ("usr/bin", "usr/sbin", "usr/local/bin", "bin", "sbin", "opt/bin")


class Roots(NamedTuple):
    """Folders of a host.

    ``driver``: the root of NVIDIA's driver: ``/``, ``/run/nvidia/driver`` (its container) or
    ``/home/kubernetes/bin/nvidia`` (GKE), as seen here; ``driver_on_host``: the same folder as the host sees it, which
    runtimes need. ``state``: the folder for MPS control daemons, which must have the same path on the host.
    """

    driver: Path = Path("/")
    driver_on_host: Path | None = None
    sys: Path = Path("/sys")
    proc: Path = Path("/proc")
    dev: Path = Path("/dev")
    state: Path = Path("/var/lib/kubelet/plugins/gpu.nvidia.com")

    def program(self, name: str) -> Path | None:
        """The path of one of the driver's programs."""
        candidates = (self.driver / folder / name for folder in PROGRAM_FOLDERS)
        return next((path for path in candidates if path.is_file()), None)

    def on_host(self, path: Path) -> str:
        """A path under the driver's root as the host's runtime sees it."""
        return str((self.driver_on_host or self.driver) / path.relative_to(self.driver))

    def in_container(self, path: Path) -> str:
        """A path under the driver's root without the root, where programs expect it."""
        return f"/{path.relative_to(self.driver)}"
