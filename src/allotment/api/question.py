"""The objects and the cluster of a question, as they were read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from allotment.api.cluster import Cluster, cluster_given
from allotment.api.load import Manifests, Source, read_sources
from allotment.api.objects.inputs import Inputs
from allotment.cluster.inspection.snapshot import SnapshotResource
from allotment.errors import InputError
from allotment.explanation.input import Readers, reads_everything
from allotment.explanation.prepare_errors import PrepareError
from allotment.explanation.report import Explanation
from allotment.model import DEFAULT_RELEASE
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey


class Evaluation(NamedTuple):
    """The answers for objects, and the objects that were evaluated."""

    explanation: Explanation
    values: Sequence[Object]


@dataclass(frozen=True, slots=True)
class Question:
    """``manifests``: None if the question is about the objects of the cluster itself.

    ``namespace``: that of named objects, and of manifests without one. ``prepare_errors``: the last error of each pod
    whose devices could not be prepared. ``evaluated``: tries the pods and claims of a question; a cluster
    in memory keeps what was tried. ``readers``: who reads the answers about the pods of a
    namespace.
    """

    cluster: Cluster
    manifests: Manifests | None
    inputs: Inputs
    namespace: str | None = None
    prepare_errors: Mapping[ObjectKey, PrepareError] = field(default_factory=dict)
    evaluated: Callable[[Question], Evaluation] | None = None
    readers: Readers = reads_everything

    @classmethod
    def of(cls, objects: Source | None, cluster: Cluster | None, namespace: str | None) -> Question:
        """Return a question whose cluster has not been read. Without a cluster, it is the running one if there are no
        objects, and has only the objects otherwise."""
        chosen = cluster_given(cluster, Cluster.live if objects is None else Cluster)
        manifests = None if objects is None else read_sources(objects)
        return cls(chosen, manifests, Inputs(Features(DEFAULT_RELEASE)), namespace)

    @property
    def is_live(self) -> bool:
        """Whether the cluster is a running one."""
        return self.cluster.origin.place == "cluster"

    @property
    def options(self) -> tuple[str, ...]:
        """The options with which another command selects the cluster and its release."""
        return (*self.cluster.origin.options, *self.cluster.source.version_options)

    @property
    def is_repeatable(self) -> bool:
        """Whether another command can read the same inputs, which does not hold for standard input."""
        return self.cluster.origin.is_repeatable and (self.manifests is None or self.manifests.is_repeatable)

    @property
    def files(self) -> tuple[str, ...]:
        """The manifests, as words of a command."""
        return self.manifests.names if self.manifests is not None else ()

    def require_objects(self) -> None:
        """Raise InputError for an empty list of objects, which does not stand for the objects of the cluster."""
        if self.manifests is not None and not self.manifests:
            raise InputError("no Kubernetes objects", "omit it for the objects of the cluster", argument="objects")

    def read(self, kinds: Sequence[SnapshotResource]) -> Question:
        """Return the question with the objects of the cluster. Raises InputError, StatusError and Unreachable."""
        return self.with_cluster(self.cluster.read(kinds))

    def with_cluster(self, read: Inputs) -> Question:
        """Return the question with objects that were read from the cluster. Raises InvalidManifests."""
        if self.manifests is None:
            return replace(self, inputs=read)
        queried = self.manifests.validated(read.features, self.namespace, read.cluster)
        return replace(self, inputs=replace(read, queried=queried))
