"""Brings Prometheus and its promtool into the virtual environment: ``python -m tests.monitoring.programs``.

They are what Debian packages as ``prometheus``; apt checks its digest. Its daemon is not installed, only unpacked. What
is on the PATH, or there already, is taken.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

FOLDER: Final = Path(sys.prefix) / "clients"
PROGRAMS: Final = ("promtool", "prometheus")


def program(name: str) -> str | None:
    """Where one of them is."""
    own = FOLDER / name
    return str(own) if own.is_file() else shutil.which(name)


def fetch() -> None:
    """Download and unpack, unless both are there. Raises SystemExit, which says why they cannot be had."""
    if all(program(name) for name in PROGRAMS):
        return
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise SystemExit("promtool is not on the PATH, and this machine is not Debian's")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        if not _downloaded(folder) and not (os.geteuid() == 0 and _updated() and _downloaded(folder)):
            raise SystemExit("promtool is not on the PATH, and Debian's package prometheus cannot be downloaded")
        package = next(Path(folder).glob("*.deb"))
        subprocess.run(["dpkg-deb", "--extract", package, f"{folder}/root"], check=True)
        FOLDER.mkdir(parents=True, exist_ok=True)
        for name in PROGRAMS:
            part = FOLDER / f"{name}.part"
            shutil.copyfile(f"{folder}/root/usr/bin/{name}", part)
            part.chmod(0o755)
            part.replace(FOLDER / name)


def _downloaded(folder: str) -> bool:
    return _ran(["apt-get", "download", "-qq", "prometheus"], folder) and any(Path(folder).glob("*.deb"))


def _updated() -> bool:
    return _ran(["apt-get", "update", "-qq"], "/")


def _ran(command: list[str], folder: str) -> bool:
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    fetch()
