"""The releases of Kubernetes' programs for comparison, and their paths on this machine.

A folder that ``$ALLOTMENT_KUBE_BIN`` names comes first, then the one that ``python -m tests.kube.binaries`` built, then
the ``PATH``. If the variable is set, no other folder is searched.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

#: Releases; ``tests/kube/modules`` pins the same.
KUBERNETES: Final = "v1.36.3"
ETCD: Final = "v3.6.8"
PROGRAMS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
FOLDER: Final = "ALLOTMENT_KUBE_BIN"


def cache() -> Path:
    """The folder of built programs, which has a folder for each pair of releases."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "allotment" / "kubernetes" / f"{KUBERNETES}-etcd-{ETCD}"


def programs(names: Sequence[str] = PROGRAMS) -> dict[str, str] | None:
    """The paths of the programs; None when one is missing."""
    found = {}
    for name in names:
        path = _found(name)
        if path is None:
            return None
        found[name] = path
    return found


def missing(names: Sequence[str] = PROGRAMS) -> list[str]:
    """The programs that are missing."""
    return [name for name in names if _found(name) is None]


def _found(name: str) -> str | None:
    named = os.environ.get(FOLDER)
    if named:
        return shutil.which(name, path=named)
    return shutil.which(name, path=str(cache())) or shutil.which(name)
