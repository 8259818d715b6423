"""A cluster in memory as the cluster of a question, so that every function of ``allotment.api`` answers without reading
it again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from allotment.api.cluster import Cluster
from allotment.api.clusters.source import ClusterOrigin, ClusterSource
from allotment.api.objects.inputs import Inputs
from allotment.cluster.inspection.snapshot import SnapshotResource
from allotment.model.trees import Tree

#: Returns objects as they are written.
Trees: TypeAlias = Callable[[], Iterable[Tree]]


class MemorySource(ClusterSource):
    """Objects that have been read. ``trees``: returns them as they are written."""

    has_objects = True

    def __init__(
        self, inputs: Inputs, origin: ClusterOrigin, kube: str | None, gates: Sequence[str], trees: Trees
    ) -> None:
        super().__init__(kube, gates)
        self._inputs = inputs
        self._origin = origin
        self._trees = trees

    @property
    def origin(self) -> ClusterOrigin:
        """The options with which a command selects this cluster."""
        return self._origin

    def read(self, kinds: Sequence[SnapshotResource]) -> Inputs:
        """Return all objects, with the release that is stated now."""
        return Inputs(self.features(self._inputs.cluster), self._inputs.cluster, (), self._inputs.notes)

    def trees(self) -> Iterable[Tree]:
        """Return the objects as they are written, and the facts about the server."""
        return self._trees()


def cluster_in_memory(
    inputs: Inputs, origin: ClusterOrigin, kube: str | None, gates: Sequence[str], trees: Trees
) -> Cluster:
    """Return objects that have been read as the cluster of questions."""
    cluster = Cluster()
    cluster.source = MemorySource(inputs, origin, kube, gates, trees)
    return cluster
