"""/version: which Kubernetes this server stands for."""

from __future__ import annotations

import platform
import sys

from allotment import __version__
from allotment.model.trees import Tree

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def version_info(kube: str) -> Tree:
    """The answer for a release such as ``1.36``: clients read ``gitVersion`` as a semantic version.

    >>> version_info("1.36")["gitVersion"].startswith("v1.36.2+allotment")
    True
    """
    major, minor = kube.split(".")[:2]
    machine = _MACHINES.get(platform.machine(), platform.machine())
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": f"v{major}.{minor}.2+allotment.{__version__}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": f"{sys.implementation.name} {platform.python_version()}",
        "platform": f"{sys.platform}/{machine}",
    }
