"""The releases of Kubernetes' programs for comparison, and their paths on this machine.

A folder that ``$ALLOTMENT_KUBE_BIN`` names comes first, then the one that ``python -m tests.kube.binaries`` built, then
the ``PATH``. If the variable is set, no other folder is searched. ``$ALLOTMENT_KUBE_RELEASE`` selects one of the
releases (``1.36``) for everything that runs them; without it, that is the newest.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

#: The patch release of each minor release that is tested, the newest first; ``tests/kube/modules`` pins the same.
RELEASES: Final[Mapping[str, str]] = {"1.37": "v1.37.2", "1.36": "v1.36.3"}
ETCD: Final = "v3.6.8"
PROGRAMS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
FOLDER: Final = "ALLOTMENT_KUBE_BIN"
RELEASE: Final = "ALLOTMENT_KUBE_RELEASE"


def selected_release() -> str:
    """The minor release that ``$ALLOTMENT_KUBE_RELEASE`` selects, or the newest. Raises ValueError for another one."""
    named = os.environ.get(RELEASE) or next(iter(RELEASES))
    if named not in RELEASES:
        raise ValueError(f"${RELEASE}: expected {' or '.join(RELEASES)}, found {named!r}")
    return named


def cache(release: str = "") -> Path:
    """The folder of built programs of a minor release, which has a folder for each pair of releases."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    version = RELEASES[release or selected_release()]
    return Path(root) / "allotment" / "kubernetes" / f"{version}-etcd-{ETCD}"


def programs(names: Sequence[str] = PROGRAMS, release: str = "") -> dict[str, str] | None:
    """The paths of the programs of a minor release, by default the selected one; None when one is missing."""
    found = {}
    for name in names:
        path = _found(name, release)
        if path is None:
            return None
        found[name] = path
    return found


def missing(names: Sequence[str] = PROGRAMS, release: str = "") -> list[str]:
    """The programs that are missing."""
    return [name for name in names if _found(name, release) is None]


def _found(name: str, release: str) -> str | None:
    named = os.environ.get(FOLDER)
    if named:
        return shutil.which(name, path=named)
    return shutil.which(name, path=str(cache(release))) or shutil.which(name)
