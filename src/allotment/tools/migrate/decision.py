"""The decision for a workload, with its reason.

There are five outcomes. ``leave``: it stays with the device plugin. ``class``: its manifest does not change, and DRA
serves it through a class's ``extendedResourceName`` (KEP-5004). ``template``: every pod gets its own claim. ``claim``:
pods share one claim. ``cannot``: DRA, or the given target, has no equivalent.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from allotment.model.meta import Value

Outcome: TypeAlias = Literal["leave", "class", "template", "claim", "cannot"]


class DriverGate(Value, frozen=True):
    """A feature gate of a DRA driver (not of Kubernetes) that the new manifests need."""

    driver: str
    name: str


class Needs(Value, frozen=True):
    """Prerequisites of the new manifests.

    ``kube_gates``: feature gates of Kubernetes; ``driver_gates``: feature gates of drivers; ``mode``: how the driver
    must publish GPUs, as a ``--fleet`` mode (``shared``); ``admin_namespaces``: namespaces that need the label
    ``resource.kubernetes.io/admin-access``; ``classes``: names of the DeviceClasses that are used.
    """

    kube_gates: tuple[str, ...] = ()
    driver_gates: tuple[DriverGate, ...] = ()
    mode: str = ""
    admin_namespaces: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()


class Decision(Value, frozen=True):
    """An outcome. ``reason``: one or two sentences; ``basis``: the facts behind the decision.

    ``hint``: what to do if changing the manifests is not enough.
    """

    outcome: Outcome
    reason: str
    basis: tuple[str, ...] = ()
    hint: str = ""
    needs: Needs = Needs()

    @property
    def changes(self) -> bool:
        """Whether the workload's own manifest changes."""
        return self.outcome in ("template", "claim")
