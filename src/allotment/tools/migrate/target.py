"""What is migrated to: the Kubernetes release, the cluster where one is given, and what the user wants.

A release before 1.34 has no ``resource.k8s.io/v1`` and no ``Features``; everything stays as it is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from allotment.model.core import Node
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.model.resource import DeviceClass, ResourceSlice

#: ``class``: what a class can serve stays as it is; ``claims``: everything gets claims; ``auto``: what is better.
Way: TypeAlias = Literal["auto", "class", "claims"]

OLDEST: Final = "1.34"


@dataclass(frozen=True, slots=True)
class Target:
    """``features`` is None for a Kubernetes before 1.34, which is ``kube``.

    ``known``: whether a cluster or fleet was given; ``nodes``, ``slices`` and ``classes`` are its,
    among all its ``objects``; ``fleet`` are the words that it was made of, if it was. ``expected``: nodes whose slices
    nobody publishes yet, but the driver would. ``shares``: how many
    pods share a GPU where no file says it (0: not told). ``same``: the attribute that several GPUs of a container must
    share, if any.
    """

    kube: str
    features: Features | None
    way: Way = "auto"
    known: bool = False
    nodes: tuple[Node, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    objects: tuple[Object, ...] = ()
    fleet: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    shares: int = 0
    same: str = ""

    def on(self, gate: str) -> bool:
        """Whether a feature gate of Kubernetes is on."""
        return self.features is not None and self.features.enabled(gate)

    def serving(self, resource: str) -> DeviceClass | None:
        """The class of the cluster that serves an extended resource; of several the first by name."""
        found = [one for one in self.classes if one.spec.extended_resource_name == resource]
        return min(found, key=lambda one: one.metadata.name, default=None)
