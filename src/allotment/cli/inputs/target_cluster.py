"""The cluster or hardware that manifests are written for, if the options name one."""

from __future__ import annotations

from argparse import Namespace

from allotment.api.cluster import Cluster
from allotment.cli.inputs.clusters import cluster_of


def target_cluster(arguments: Namespace) -> Cluster:
    """Return the cluster of the options; without any, only the release. Raises InputError."""
    if not (arguments.context or arguments.kubeconfig or arguments.cluster or arguments.fleet):
        return Cluster(kube=arguments.kube_version, gates=arguments.feature_gates)
    return cluster_of(arguments)
