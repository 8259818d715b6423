"""The sdist and the wheel, built by hatchling from the source tree."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from release.source_tree import ROOT, ReleaseError, timestamp


def build_wheel(folder: Path) -> Path:
    """Write the wheel into a folder, and return its path."""
    return _built("wheel", folder, "allotment-*.whl")


def build_sdist(folder: Path) -> Path:
    """Write the sdist into a folder, and return its path."""
    return _built("sdist", folder, "allotment-*.tar.gz")


def _built(target: str, folder: Path, pattern: str) -> Path:
    command: list[str | Path] = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", folder]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(timestamp())}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"the {target} cannot be built: {done.stderr.strip() or done.stdout.strip()}")
    (built,) = folder.glob(pattern)
    return built
