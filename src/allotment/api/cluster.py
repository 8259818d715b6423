"""The cluster that a question is asked about: a snapshot, described hardware, a running cluster, or only a release."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.api.cluster_source import ClusterOrigin, ClusterSource, Gates
from allotment.api.described_cluster import HardwareSource, SnapshotSource
from allotment.api.inputs import Inputs
from allotment.api.load import Source, load
from allotment.cluster.inspection.snapshot import EVERYTHING, SnapshotResource
from allotment.model.features import Features


class Cluster:
    """The cluster of a question. ``Cluster(kube="1.36")`` is only a release: nothing is known of its objects.

    ``kube``: the Kubernetes release, by default the one that the cluster reports, else the newest known.
    ``gates``: feature gates that differ from the defaults.
    """

    def __init__(self, *, kube: str | None = None, gates: Gates = ()) -> None:
        self.source: ClusterSource = ClusterSource(kube, gates)

    @classmethod
    def _of(cls, source: ClusterSource) -> Cluster:
        found = cls.__new__(cls)
        found.source = source
        return found

    @staticmethod
    def snapshot(*sources: Source, kube: str | None = None, gates: Gates = ()) -> Cluster:
        """Return the cluster of a snapshot: files of ``allot snapshot``, folders, or any objects."""
        return Cluster._of(SnapshotSource(load(*sources), kube, gates))

    @staticmethod
    def fleet(*machines: str, kube: str | None = None, gates: Gates = ()) -> Cluster:
        """Return a cluster of described hardware, such as ``"dgx-a100-40gb:2"``. Raises FleetError."""
        return Cluster._of(HardwareSource(machines, kube, gates))

    def read(self, kinds: Sequence[SnapshotResource] = EVERYTHING) -> Inputs:
        """Return the objects of the cluster, its release, and notes about reading it."""
        return self.source.read(kinds)

    @property
    def origin(self) -> ClusterOrigin:
        """How a command selects this cluster."""
        return self.source.origin

    @property
    def features(self) -> Features:
        """The release of the cluster and its feature gates."""
        return self.source.read(()).features
