"""The cluster and the manifests that the options of a command name, as the Python API takes them."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from allotment.api.cluster import Cluster
from allotment.api.load import Manifests, Source, read_sources
from allotment.cli import kubectl_plugin
from allotment.errors import InputError


def is_live(arguments: Namespace) -> bool:
    """Return whether to use a running cluster: one is named, or no other input is given."""
    if arguments.context or arguments.kubeconfig:
        return True
    return not (getattr(arguments, "files", None) or arguments.cluster or arguments.fleet)


def cluster_of(arguments: Namespace) -> Cluster:
    """Return the cluster, snapshot or hardware of the options. Raises InputError."""
    kube, gates = arguments.kube_version, arguments.feature_gates
    if is_live(arguments):
        if arguments.cluster or arguments.fleet:
            raise InputError("--context: not allowed with --cluster or --fleet", "use only one of them")
        return live_cluster(arguments)
    if arguments.cluster:
        return Cluster.snapshot(*sources(arguments, arguments.cluster), kube=kube, gates=gates)
    if arguments.fleet:
        return Cluster.fleet(*words(arguments.fleet), kube=kube, gates=gates)
    return Cluster(kube=kube, gates=gates)


def live_cluster(arguments: Namespace) -> Cluster:
    """Return the running cluster of ``--context`` and ``--kubeconfig``, or the default one. Raises InputError."""
    from allotment.cli.live.connection import no_cluster

    with no_cluster(arguments):
        return Cluster.live(
            arguments.context or "",
            kubeconfig=arguments.kubeconfig,
            prefer_lab=not kubectl_plugin.is_plugin(),
            kube=getattr(arguments, "kube_version", None),
            gates=getattr(arguments, "feature_gates", ()),
        )


@contextmanager
def cluster_errors_of(cluster: Cluster) -> Iterator[None]:
    """Convert errors of a running cluster to those that kubectl would print."""
    if cluster.origin.place != "cluster":
        yield
        return
    from allotment.api.clusters.live import LiveSource
    from allotment.cli.live.connection import cluster_errors

    assert isinstance(cluster.source, LiveSource)
    with cluster_errors(cluster.source.target):
        yield


def objects_of(arguments: Namespace) -> Manifests | None:
    """Return the manifests of ``-f`` with their problems, or None without the option."""
    return read_sources(*sources(arguments, arguments.files)) if arguments.files else None


def sources(arguments: Namespace, option: Iterable[str | Sequence[str]]) -> list[Source]:
    """Return the files of an option, with the manifests of standard input for ``-``."""
    return [_standard_input(arguments) if name == "-" else name for name in words(option)]


def words(option: Iterable[str | Sequence[str]]) -> list[str]:
    """Return the values of an option that can be repeated, and of which some commands accept several at a time."""
    return [word for group in option for word in ((group,) if isinstance(group, str) else group)]


def _standard_input(arguments: Namespace) -> Manifests:
    """Return the manifests of standard input, which can be read only once but may be named twice."""
    if not hasattr(arguments, "standard_input"):
        arguments.standard_input = read_sources(sys.stdin.buffer)
    found: Manifests = arguments.standard_input
    return found
