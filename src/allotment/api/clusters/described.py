"""Clusters that do not run: snapshots, and described hardware."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from allotment.api.clusters.source import ClusterOrigin, ClusterSource, Gates
from allotment.api.load import Manifests
from allotment.api.objects.inputs import Inputs, queued
from allotment.cluster.gc_pause import gc_paused
from allotment.cluster.inspection.snapshot import SnapshotResource
from allotment.fleet import cluster_of, parse_fleet
from allotment.model.meta import Object
from allotment.model.trees import Tree
from allotment.phrases import listed


class SnapshotSource(ClusterSource):
    """The cluster of a snapshot, which is read once. Raises InvalidManifests."""

    has_objects = True

    def __init__(self, manifests: Manifests, kube: str | None, gates: Gates) -> None:
        super().__init__(kube, gates)
        self.manifests = manifests
        if manifests.problems:
            manifests.decoded()  # raises these and all others

    @cached_property
    def _values(self) -> tuple[Object, ...]:
        # Not in the constructor: the checks of a cluster ignore objects that cannot be decoded.
        return self.manifests.decoded()

    @property
    def origin(self) -> ClusterOrigin:
        """The options with which a command selects this cluster."""
        names = self.manifests.names
        options = tuple(word for name in names for word in ("--cluster", name))
        title = f"the cluster of {listed(names)}" if names else "the snapshot"
        return ClusterOrigin("snapshot", options, (), title, self.manifests.is_repeatable)

    def read(self, kinds: Sequence[SnapshotResource]) -> Inputs:
        """Return all objects of the snapshot."""
        return Inputs(self.features(self._values), queued(self._values))

    def trees(self) -> Iterable[Tree]:
        """Return the objects as they are written: values do not have all fields."""
        return (document.tree for document in self.manifests)


class HardwareSource(ClusterSource):
    """A cluster of described hardware, in the syntax of ``--fleet``. Raises FleetError."""

    has_objects = True

    def __init__(self, machines: Sequence[str], kube: str | None, gates: Gates) -> None:
        super().__init__(kube, gates)
        self.machines = tuple(machines)
        with gc_paused():  # a fleet may have hundreds of thousands of possible MIG devices
            self._cluster = cluster_of(parse_fleet(list(machines)), self.features().kube)

    @property
    def origin(self) -> ClusterOrigin:
        """The options with which a command selects this cluster."""
        options = tuple(word for machine in self.machines for word in ("--fleet", machine))
        return ClusterOrigin("hardware", options, (), ", ".join(self.machines))

    def with_defaults(self, kube: str | None, gates: Sequence[str]) -> ClusterSource:
        """Return the same machines, with the slices of another release."""
        return HardwareSource(self.machines, self.kube or kube, (*gates, *self.gates))

    def read(self, kinds: Sequence[SnapshotResource]) -> Inputs:
        """Return the nodes, slices and classes."""
        cluster = self._cluster
        return Inputs(self.features(), queued((*cluster.nodes, *cluster.slices, *cluster.classes)))
