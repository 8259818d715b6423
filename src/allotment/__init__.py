"""Dynamic Resource Allocation for GPUs: Kubernetes' own answers, with the reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allotment.lab.lab import Lab as Lab

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """``allotment.Lab``, which brings a whole control plane along, is imported when it is first asked for."""
    if name == "Lab":
        from importlib import import_module

        return import_module("allotment.lab.lab").Lab
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
