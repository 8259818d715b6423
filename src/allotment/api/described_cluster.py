"""Clusters that do not run: snapshots, and described hardware."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.api.cluster_source import ClusterOrigin, ClusterSource, Gates
from allotment.api.inputs import Inputs, queued
from allotment.api.load import Manifests
from allotment.cluster.inspection.snapshot import SnapshotResource
from allotment.fleet import cluster_of, parse_fleet
from allotment.phrases import listed


class SnapshotSource(ClusterSource):
    """The cluster of a snapshot, which is read once. Raises InvalidManifests."""

    def __init__(self, manifests: Manifests, kube: str | None, gates: Gates) -> None:
        super().__init__(kube, gates)
        self._names, self._is_repeatable = manifests.names, manifests.is_repeatable
        self._values = manifests.decoded()

    @property
    def origin(self) -> ClusterOrigin:
        """How a command selects this cluster."""
        options = tuple(word for name in self._names for word in ("--cluster", name))
        return ClusterOrigin("snapshot", options, (), f"the cluster of {listed(self._names)}", self._is_repeatable)

    def read(self, kinds: Sequence[SnapshotResource]) -> Inputs:
        """Return all objects of the snapshot."""
        return Inputs(self.features(self._values), queued(self._values))


class HardwareSource(ClusterSource):
    """A cluster of described hardware, in the syntax of ``--fleet``. Raises FleetError."""

    def __init__(self, machines: Sequence[str], kube: str | None, gates: Gates) -> None:
        super().__init__(kube, gates)
        self._machines = tuple(machines)
        self._cluster = cluster_of(parse_fleet(list(machines)), self.features().kube)

    @property
    def origin(self) -> ClusterOrigin:
        """How a command selects this cluster."""
        options = tuple(word for machine in self._machines for word in ("--fleet", machine))
        return ClusterOrigin("hardware", options, (), listed(self._machines))

    def read(self, kinds: Sequence[SnapshotResource]) -> Inputs:
        """Return the nodes, slices and classes."""
        cluster = self._cluster
        return Inputs(self.features(), queued((*cluster.nodes, *cluster.slices, *cluster.classes)))
