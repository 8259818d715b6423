"""Installs Prometheus and its promtool into the virtual environment: ``python -m tests.monitoring.programs``.

They come from Debian's package ``prometheus``; apt checks its digest. The package is not installed, only unpacked.
Programs on the PATH, or unpacked before, are used as they are.
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
    """The path of a program, if it exists."""
    own = FOLDER / name
    return str(own) if own.is_file() else shutil.which(name)


def fetch() -> None:
    """Download and unpack, unless both programs exist. Raises SystemExit with the reason when that is impossible."""
    if all(program(name) for name in PROGRAMS):
        return
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise SystemExit("promtool is not on the PATH, and this machine does not run Debian")
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
    return _run(["apt-get", "download", "-qq", "prometheus"], folder) and any(Path(folder).glob("*.deb"))


def _updated() -> bool:
    return _run(["apt-get", "update", "-qq"], "/")


def _run(command: list[str], folder: str) -> bool:
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    fetch()
