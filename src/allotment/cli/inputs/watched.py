"""The cluster that ``allot web`` and ``allot top`` follow: what the options name, kept in memory."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Final

from allotment.api.cluster import Cluster
from allotment.cli.inputs.clusters import cluster_of, is_live
from allotment.errors import InputError

if TYPE_CHECKING:
    from allotment.watched.cluster import WatchedCluster

#: The note if no cluster is named, none runs and kubectl knows none.
NOTHING: Final = "no cluster found: this is a playground, for trying manifests (--cluster, --fleet or --context: more)"


def watched_cluster(arguments: Namespace) -> WatchedCluster:
    """Return the lab, cluster, snapshot or hardware of the options. Raises InputError."""
    from allotment.watched.cluster import WatchedCluster

    return WatchedCluster.of(cluster_of(arguments), is_lab=True if getattr(arguments, "with_parent", False) else None)


def watched_cluster_or_playground(arguments: Namespace) -> WatchedCluster:
    """Return the same, or only a release: with ``--playground``, and if nothing is named and nothing is found."""
    from allotment.watched.cluster import WatchedCluster

    is_named = bool(arguments.context or arguments.kubeconfig)
    if arguments.playground and is_named:
        raise InputError("--playground: not allowed with --context or --kubeconfig", "use only one of them")
    if not arguments.playground:
        try:
            return watched_cluster(arguments)
        except InputError:
            if is_named or not is_live(arguments):
                raise
    return WatchedCluster.of_snapshot(Cluster(kube=arguments.kube_version, gates=arguments.feature_gates))
