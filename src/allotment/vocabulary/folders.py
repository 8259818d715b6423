"""Folders of a node by which a driver's pod is known, whatever it is called."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

#: Where a kubelet finds its plugins; the folder above is each kubelet's own.
_REGISTRY: Final = "/plugins_registry"
#: Where a plugin of devices, not one of storage, says what containers get (CDI, NRI).
_INJECTION: Final = ("/var/run/cdi", "/run/cdi", "/etc/cdi", "/var/run/nri", "/run/nri")


def telling(path: str) -> str:
    """What a folder tells of the pod that has it, and nothing else of the node; empty if nothing.

    >>> telling("/srv/acme/kubelet/plugins_registry/"), telling("/etc/cdi"), telling("/etc")
    ('/plugins_registry', '/etc/cdi', '')
    """
    path = path.rstrip("/")
    return _REGISTRY if path.endswith(_REGISTRY) else path if path in _INJECTION else ""


def of_driver(paths: Iterable[str]) -> bool:
    """Whether a pod with these folders is a driver of devices."""
    told = {telling(path) for path in paths}
    return _REGISTRY in told and bool(told & set(_INJECTION))
