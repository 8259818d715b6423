"""Initial objects of the cluster and of each namespace, created where missing.

The API creates the service account and the certificate bundle of a new namespace. Here they are updated when a lab
starts again (its authority may be new), and recreated after a deletion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from allotment.apiserver.access.bootstrap import cluster_objects
from allotment.apiserver.kinds.kind import User
from allotment.apiserver.served_kinds import Catalog
from allotment.apiserver.storage.store import Change, Store
from allotment.apiserver.verbs import Operation, Verbs
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree

_SERVER = User("system:apiserver", ("system:masters", "system:authenticated"))
_BUCKETS = {"ServiceAccount": "serviceaccounts", "ConfigMap": "configmaps"}


class FirstObjects:
    """Keeps the initial objects of the cluster and its namespaces, starting with :meth:`begin`."""

    def __init__(
        self, store: Store, verbs: Verbs, catalog: Catalog, namespace_objects: Callable[[str], Iterable[Tree]]
    ) -> None:
        self._store = store
        self._verbs = verbs
        self._catalog = catalog
        self._namespace_objects = namespace_objects
        self._stop: list[Callable[[], None]] = []

    def begin(self, port: int) -> None:
        """Create what is missing now, of the kinds that are served, and recreate what is deleted later.

        ``port``: of the API.
        """
        self._stop = [self._store.subscribe(bucket, self._lost) for bucket in _BUCKETS.values()]
        for tree in cluster_objects(self._verbs.features, port=port):
            if self._catalog.named(tree["apiVersion"], tree["kind"]) is not None:
                self._create(tree)
        for entry in self._store.list("namespaces"):
            for tree in self._of(entry.name):
                self._furnish(tree)

    def end(self) -> None:
        """Stop recreating deleted objects."""
        for stop in self._stop:
            stop()

    def _lost(self, change: Change) -> None:
        if change.type != "DELETED":
            return
        namespace, name = change.entry.namespace, change.entry.name
        for tree in self._of(namespace):
            if _BUCKETS[tree["kind"]] == change.resource and tree["metadata"]["name"] == name:
                self._create(tree)

    def _furnish(self, tree: Tree) -> None:
        meta = tree["metadata"]
        existing = self._store.get(_BUCKETS[tree["kind"]], meta["namespace"], meta["name"])
        if existing is None:
            self._create(tree)
        elif tree["kind"] == "ConfigMap" and existing.tree.get("data") != tree["data"]:
            self._verbs.update(self._call(tree), {**existing.tree, "data": tree["data"]})

    def _of(self, namespace: str) -> Iterable[Tree]:
        entry = self._store.get("namespaces", "", namespace)
        gone = entry is None or "deletionTimestamp" in entry.tree["metadata"]
        return () if gone else self._namespace_objects(namespace)

    def _create(self, tree: Tree) -> None:
        call = self._call(tree)
        if self._store.get(call.kind.store_bucket, call.namespace, call.name) is not None:
            return
        try:
            self._verbs.create(call, tree)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise

    def _call(self, tree: Tree) -> Operation:
        kind = self._catalog.named(tree["apiVersion"], tree["kind"])
        if kind is None:
            raise LookupError(f"{tree['kind']} of {tree['apiVersion']} is not served")
        meta = tree["metadata"]
        namespace = meta.get("namespace", "") if kind.namespaced else ""
        # In Kubernetes a controller creates the objects of a namespace, the API server the others.
        manager = "kube-controller-manager" if tree["kind"] in _BUCKETS else "kube-apiserver"
        return Operation(kind, tree["apiVersion"].rpartition("/")[2], namespace, meta["name"], _SERVER, manager)
