"""Dynamic Resource Allocation for GPUs: allocates devices as Kubernetes does, and gives the reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allotment import drivers as drivers
    from allotment.cluster.errors import StatusError as StatusError
    from allotment.lab.lab import Lab as Lab
    from allotment.lab.lab import NotApplied as NotApplied

__all__ = ["Lab", "NotApplied", "StatusError", "__version__"]
__version__ = "0.1.0"

#: Imported at first access, so that ``import allotment`` does not import the control plane of the lab.
_MODULES = {"Lab": "allotment.lab.lab", "NotApplied": "allotment.lab.lab", "StatusError": "allotment.cluster.errors"}
#: Also imported at first access: ``allotment.drivers.device`` works after ``import allotment``.
_SUBMODULES = ("drivers",)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if module.startswith("allotment.lab."):
        import_module("allotment.extras").require("running a lab", "lab")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES, *(name for name in globals() if name.startswith("__"))})
