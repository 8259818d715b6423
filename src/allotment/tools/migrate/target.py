"""The migration target: Kubernetes release, cluster or fleet if given, and the user's options.

A release before 1.34 has no ``resource.k8s.io/v1`` and no ``Features``; nothing changes there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from allotment.model.core import Node
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.model.releases import RELEASES
from allotment.model.resource import DeviceClass, ResourceSlice

#: ``class``: keep what a class can serve; ``claims``: convert everything to claims; ``auto``: decide per workload.
MigrationStrategy: TypeAlias = Literal["auto", "class", "claims"]

#: The first release with ``resource.k8s.io/v1``: the oldest one that is modeled.
OLDEST: Final = RELEASES[0]


@dataclass(frozen=True, slots=True)
class Target:
    """The migration target. ``features`` is None if the release ``kube`` is older than 1.34.

    ``known``: whether a cluster or fleet was given, with its ``nodes``, ``slices`` and ``classes``, which are among its
    ``objects``. ``fleet``: the ``--fleet`` arguments. ``expected``: nodes whose slices are derived, because no driver
    publishes them yet. ``shares``: the default number of pods per shared GPU (0: unknown). ``same``: the attribute that
    several GPUs of a container must share, if any.
    """

    kube: str
    features: Features | None
    strategy: MigrationStrategy = "auto"
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

    def serving_class(self, resource: str) -> DeviceClass | None:
        """The cluster's class that serves an extended resource; the first by name if there are several."""
        found = [device_class for device_class in self.classes if device_class.spec.extended_resource_name == resource]
        return min(found, key=lambda device_class: device_class.metadata.name, default=None)
