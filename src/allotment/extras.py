"""Optional dependencies: what each extra of the package installs, and one error for what is missing.

A command names its extras before it does anything, so that the error lists all of them at once and ends with the
command that installs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from types import MappingProxyType
from typing import Final

#: Modules by the extra that installs them. Left out: what works without, as uvloop.
MODULES: Final[Mapping[str, Sequence[str]]] = MappingProxyType({
    "cluster": ("aiohttp",),
    "lab": ("aiohttp", "cryptography", "httptools"),
    "drivers": ("grpc", "google.protobuf"),
    "nvidia": ("aiohttp", "grpc", "google.protobuf", "pynvml"),
    "amd": ("aiohttp", "grpc", "google.protobuf"),
    "run": ("aiohttp", "prometheus_client"),
    "traces": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "plan": ("highspy", "matplotlib", "numpy"),
})  # fmt: skip

#: The packages whose names differ from their modules'.
PACKAGES: Final[Mapping[str, str]] = MappingProxyType({
    "google.protobuf": "protobuf",
    "grpc": "grpcio",
    "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "prometheus_client": "prometheus-client",
    "pynvml": "nvidia-ml-py",
})  # fmt: skip


class MissingExtraError(ImportError):
    """Raised where packages of an extra are required and not installed; the text names them and how to install them."""


def missing_packages(*extras: str, modules: Sequence[str] = ()) -> list[str]:
    """The packages of the extras that are not installed. ``modules``: those that are looked for, if not all."""
    wanted = modules or [module for extra in extras for module in MODULES[extra]]
    return [PACKAGES.get(module, module) for module in dict.fromkeys(wanted) if not _installed(module)]


def install_command(*extras: str) -> str:
    """The command that installs the extras.

    >>> install("cluster", "drivers")
    "pip install 'allotment[cluster,drivers]'"
    """
    return f"pip install 'allotment[{','.join(extras)}]'"


def require(purpose: str, *extras: str, modules: Sequence[str] = ()) -> None:
    """Raise MissingExtra unless all packages of the extras are installed.

    ``purpose`` is the subject of the error: "connecting to a cluster". ``modules``: those that it needs, if not all.
    """
    if packages := missing_packages(*extras, modules=modules):
        raise MissingExtraError(f"{purpose} requires {', '.join(packages)}: {install_command(*extras)}")


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it is in
        return False
