"""What becomes of a workload, as a value with the reason.

Five outcomes. ``leave``: it stays with the device plugin. ``class``: its manifest stays, and DRA serves it through a
class's ``extendedResourceName`` (KEP-5004). ``template``: every pod gets a claim of its own. ``claim``: pods share one
claim. ``cannot``: DRA has no equal for what it does, or not on what was given.
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
    """What must be there before the new manifests work.

    ``kube_gates``: Kubernetes' feature gates; ``driver_gates``: those of drivers; ``mode``: how the driver must publish
    GPUs, in the words of ``--fleet`` (``shared``); ``admin_namespaces``: namespaces that need the label
    ``resource.kubernetes.io/admin-access``; ``classes``: the DeviceClasses that are named.
    """

    kube_gates: tuple[str, ...] = ()
    driver_gates: tuple[DriverGate, ...] = ()
    mode: str = ""
    admin_namespaces: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()


class Decision(Value, frozen=True):
    """One outcome. ``reason`` is one or two sentences; ``basis`` are the facts that it was decided on.

    ``hint``: what to do where nothing can be done with the manifests alone.
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
