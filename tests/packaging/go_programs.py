"""krew and actionlint, each built once from its Go module into ``~/.cache/allotment``."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

_MODULES: Final[Mapping[str, str]] = {
    "actionlint": "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12",
    "krew": "sigs.k8s.io/krew/cmd/krew@v0.4.3",
}


def required_program(name: str) -> Path:
    """The path of a program; the test is skipped if it cannot be built."""
    module = _MODULES[name]
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = root / "allotment" / f"{name}-{module.partition('@')[2]}"
    if (folder / name).is_file():
        return folder / name
    go = shutil.which("go")
    if go is None:
        pytest.skip(f"{name} is not built: Go not found")
    environment = {**os.environ, "GOBIN": str(folder), "CGO_ENABLED": "0"}
    done = subprocess.run(
        [go, "install", module], env=environment, capture_output=True, text=True, check=False, timeout=280
    )
    if done.returncode:
        pytest.skip(f"{name} is not built: {done.stderr.strip().splitlines()[-1]}")
    return folder / name
