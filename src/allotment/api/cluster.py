"""The cluster that a question is asked about: a snapshot, described hardware, a running cluster, or only a release."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allotment.api.choices import not_a_cluster
from allotment.api.clusters.described import HardwareSource, SnapshotSource
from allotment.api.clusters.saved import SavedCluster, require_writable, saved_cluster
from allotment.api.clusters.source import ClusterOrigin, ClusterSource, Gates
from allotment.api.load import Source, read_sources
from allotment.api.objects.inputs import Inputs
from allotment.cluster.inspection.snapshot import EVERYTHING, SnapshotResource
from allotment.fleet.errors import FleetError
from allotment.model.features import Features

if TYPE_CHECKING:
    from allotment.lab.lab import Lab


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
        """Return the cluster of a snapshot: files of ``allot snapshot``, folders, or any objects.

        It is read once. Raises InvalidManifests.
        """
        return Cluster._of(SnapshotSource(read_sources(*sources), kube, gates))

    @staticmethod
    def fleet(*machines: str, kube: str | None = None, gates: Gates = ()) -> Cluster:
        """Return a cluster of described hardware, such as ``"dgx-a100-40gb:2"``. Raises FleetError."""
        _require_texts(machines)
        return Cluster._of(HardwareSource(machines, kube, gates))

    @staticmethod
    def live(
        context: str = "",
        *,
        kubeconfig: str | PathLike[str] | None = None,
        prefer_lab: bool = True,
        kube: str | None = None,
        gates: Gates = (),
    ) -> Cluster:
        """Return a running cluster, which each question reads again.

        ``context``: by default that of a running lab or, without a lab or ``prefer_lab``, the current one.
        ``kubeconfig``: by default ``$KUBECONFIG`` or ``~/.kube/config``. Raises InputError for an unknown context, or
        without a kubeconfig. Questions raise StatusError and Unreachable.
        """
        from allotment.api.clusters.live import LiveSource

        return Cluster._of(LiveSource(context, kubeconfig, kube, gates, prefer_lab))

    @staticmethod
    def lab(lab: Lab, *, kube: str | None = None, gates: Gates = ()) -> Cluster:
        """Return the cluster of a lab that is running in this process."""
        return Cluster.live(kubeconfig=lab.kubeconfig, prefer_lab=False, kube=kube, gates=gates)

    def read(self, kinds: Sequence[SnapshotResource] = EVERYTHING) -> Inputs:
        """Return the objects of the cluster, its release, and notes about reading it.

        Raises InvalidManifests for a snapshot, StatusError and Unreachable for a running cluster.
        """
        return self.source.read(kinds)

    def to_dict(self, *, redact: bool = False) -> dict[str, Any]:
        """Return a snapshot of the cluster as a List, without Secrets and ConfigMaps.

        ``redact``: replace names and values with pseudonyms. Raises StatusError and Unreachable.
        """
        return self._saved(redact).to_dict()

    def save(self, file: str | PathLike[str], *, redact: bool = False) -> None:
        """Save a snapshot of the cluster as YAML, or as JSON if the name ends in ``.json``; see ``to_dict``.

        Raises InputError if the folder does not exist.
        """
        path = Path(file)
        require_writable(path)
        self._saved(redact).write(path)

    def _saved(self, redact: bool) -> SavedCluster:
        saved = saved_cluster(self.source)
        return saved.redacted() if redact else saved

    @property
    def origin(self) -> ClusterOrigin:
        """The options with which a command selects this cluster."""
        return self.source.origin

    @property
    def features(self) -> Features:
        """The release of the cluster and its feature gates."""
        return self.source.read(()).features


def cluster_given(cluster: object, default: Callable[[], Cluster] = Cluster) -> Cluster:
    """Return the argument ``cluster`` of a question, or the default for None. Raises InputError for other values."""
    if cluster is None:
        return default()
    if isinstance(cluster, Cluster):
        return cluster
    raise not_a_cluster(cluster)


def _require_texts(machines: Iterable[object]) -> None:
    for machine in machines:
        if not isinstance(machine, str):
            found = type(machine).__name__
            raise FleetError(f"expected texts, found {found}", "use Cluster.fleet(*machines)", argument="machines")
