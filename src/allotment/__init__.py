"""Dynamic Resource Allocation for GPUs: Kubernetes' own answers, with the reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allotment.cluster.errors import StatusError as StatusError
    from allotment.lab.lab import Lab as Lab
    from allotment.lab.lab import NotApplied as NotApplied

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """``allotment.Lab``, which brings a whole control plane along, is imported when it is first asked for."""
    if name == "Lab":
        from importlib import import_module

        import_module("allotment.lab.optional_dependencies").check()
        return import_module("allotment.lab.lab").Lab
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
