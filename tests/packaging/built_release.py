"""A release that is built for this platform and this release of Python only, from dependencies that are kept.

The dependencies are downloaded once for each lock file; everything else works without network.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest

from release.lock_file import LOCK
from release.platforms import this_platform
from release.source_tree import ReleaseError
from release.zipapp import EXTRAS, download
from tests.packaging.helm import ROOT

_HERE: Final = this_platform()
PLATFORM: Final = _HERE.name if _HERE else ""
PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
URL: Final = "https://downloads.example/allotment"


def wheels() -> Path:
    """A folder with the locked dependencies of the zipapp; skips the test if they cannot be downloaded."""
    if _HERE is None:
        pytest.skip("no files are released for this platform")
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "allotment"
    digest = hashlib.sha256(LOCK.read_bytes() + repr(EXTRAS).encode()).hexdigest()[:12]
    folder = root / f"wheels-{PLATFORM}-{PYTHON}-{digest}"
    if not folder.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root) as part:
            try:
                download(_HERE, PYTHON, EXTRAS, Path(part, "wheels"))
            except ReleaseError as error:
                pytest.skip(str(error))
            if not folder.is_dir():  # another process may have been faster
                Path(part, "wheels").rename(folder)
    return folder


def without_network() -> dict[str, str]:
    """The variables with which pip finds the dependencies, and nothing else."""
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels())}


def run(out: Path, umask: str = "022", **environment: str) -> subprocess.CompletedProcess[str]:
    """The result of building into a folder, with these variables."""
    release: list[str | Path] = [
        sys.executable,
        "-m",
        "release",
        "--out",
        out,
        "--url",
        URL,
        "--platform",
        PLATFORM,
        "--python",
        PYTHON,
    ]
    return subprocess.run(
        ["sh", "-c", f'umask {umask}; exec "$@"', "sh", *release], cwd=ROOT, capture_output=True, text=True,
        check=False, timeout=280, env={**os.environ, **without_network(), **environment},
    )  # fmt: skip


def build(out: Path, umask: str = "022", **environment: str) -> Path:
    """The folder with the files."""
    done = run(out, umask, **environment)
    assert done.returncode == 0, done.stderr
    return out
