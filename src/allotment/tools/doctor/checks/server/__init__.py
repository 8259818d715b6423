"""Checks of the API server: APIs, versions, feature gates and permissions."""

from __future__ import annotations

from typing import Final

from allotment.tools.doctor.check import ClusterCheck
from allotment.tools.doctor.checks.server import (
    gates_differ,
    gates_off,
    no_device_api,
    old_kubelets,
    old_programs,
    permissions_missing,
    unknown_versions,
)

SERVER: Final[tuple[ClusterCheck, ...]] = (
    no_device_api.CHECK, gates_off.CHECK, old_kubelets.CHECK, permissions_missing.CHECK, unknown_versions.CHECK,
    old_programs.CHECK, gates_differ.CHECK,
)  # fmt: skip
