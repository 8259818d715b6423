"""Optional dependencies: the modules of each extra, and the error for missing packages.

A command checks its extras first, so that one error lists all missing packages and the command that installs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from types import MappingProxyType
from typing import Final

#: The required modules of each extra, without optional accelerators such as uvloop.
MODULES: Final[Mapping[str, Sequence[str]]] = MappingProxyType({
    "lab": ("cryptography", "httptools"),
    "drivers": ("grpc", "google.protobuf"),
    "nvidia": ("grpc", "google.protobuf", "pynvml"),
    "amd": ("grpc", "google.protobuf"),
    "run": ("prometheus_client",),
    "traces": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "plan": ("highspy", "matplotlib", "numpy"),
    "web": ("starlette", "uvicorn"),
    "mcp": ("mcp", "uvicorn"),
})  # fmt: skip

#: Package names that differ from the module name.
PACKAGES: Final[Mapping[str, str]] = MappingProxyType({
    "google.protobuf": "protobuf",
    "grpc": "grpcio",
    "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "prometheus_client": "prometheus-client",
    "pynvml": "nvidia-ml-py",
})  # fmt: skip


class MissingExtraError(ImportError):
    """Raised if required packages of an extra are not installed; the message contains the install command."""


def missing_packages(*extras: str, modules: Sequence[str] = ()) -> list[str]:
    """The packages of the extras that are not installed. ``modules``: the required modules, if not all."""
    required = modules or [module for extra in extras for module in MODULES[extra]]
    return [PACKAGES.get(module, module) for module in dict.fromkeys(required) if not _is_installed(module)]


def install_command(*extras: str) -> str:
    """The pip command that installs the extras.

    >>> install_command("run", "drivers")
    "pip install 'allotment[run,drivers]'"
    """
    return f"pip install 'allotment[{','.join(extras)}]'"


def require(purpose: str, *extras: str, modules: Sequence[str] = ()) -> None:
    """Raise MissingExtraError unless all packages of the extras are installed.

    ``purpose``: the subject of the message: "running a lab". ``modules``: the required modules, if not all.
    """
    if packages := missing_packages(*extras, modules=modules):
        raise MissingExtraError(f"{purpose} requires {', '.join(packages)}: {install_command(*extras)}")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False
