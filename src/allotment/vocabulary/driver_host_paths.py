"""Detects the pods of device drivers by the host folders that they mount."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

#: The folder in which a kubelet finds its plugins; the folder above it depends on the kubelet.
_REGISTRY: Final = "/plugins_registry"
#: Folders through which device plugins and drivers, unlike those of storage, edit containers (CDI, NRI).
_INJECTION: Final = ("/var/run/cdi", "/run/cdi", "/etc/cdi", "/var/run/nri", "/run/nri")


def driver_path(path: str) -> str:
    """Return the part of a folder's path that identifies a driver; empty if there is none. Redacted paths keep only it.

    >>> driver_path("/srv/acme/kubelet/plugins_registry/"), driver_path("/etc/cdi"), driver_path("/etc")
    ('/plugins_registry', '/etc/cdi', '')
    """
    path = path.rstrip("/")
    return _REGISTRY if path.endswith(_REGISTRY) else path if path in _INJECTION else ""


def belong_to_driver(paths: Iterable[str]) -> bool:
    """Whether a pod that mounts these host folders is a device driver."""
    kinds = {driver_path(path) for path in paths}
    return _REGISTRY in kinds and bool(kinds & set(_INJECTION))
