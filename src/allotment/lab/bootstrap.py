"""What a cluster has from the start, created where it is missing, and what each namespace must not lose.

The API itself brings a new namespace its account and its bundle of certificates; here they are brought up to date when
a lab starts again (its authority may be a new one), and brought again when somebody deletes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from allotment.apiserver.access.bootstrap import cluster_objects
from allotment.apiserver.kinds.kind import User
from allotment.apiserver.served_kinds import Catalog
from allotment.apiserver.storage.store import Change, Store
from allotment.apiserver.verbs import Ask, Verbs
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree

_SERVER = User("system:apiserver", ("system:masters", "system:authenticated"))
_BUCKETS = {"ServiceAccount": "serviceaccounts", "ConfigMap": "configmaps"}


class FirstObjects:
    """Keeps the first objects of a cluster and of its namespaces there, from :meth:`begin` on."""

    def __init__(
        self, store: Store, verbs: Verbs, catalog: Catalog, companions: Callable[[str], Iterable[Tree]]
    ) -> None:
        self._store = store
        self._verbs = verbs
        self._catalog = catalog
        self._companions = companions
        self._stop: list[Callable[[], None]] = []

    def begin(self, port: int) -> None:
        """Create what is missing now, and what will be missing later; ``port`` is the API's."""
        self._stop = [self._store.subscribe(bucket, self._lost) for bucket in _BUCKETS.values()]
        for tree in cluster_objects(port=port):
            self._create(tree)
        for entry in self._store.list("namespaces"):
            for tree in self._of(entry.name):
                self._furnish(tree)

    def end(self) -> None:
        """Look no more."""
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
        there = self._store.get(_BUCKETS[tree["kind"]], meta["namespace"], meta["name"])
        if there is None:
            self._create(tree)
        elif tree["kind"] == "ConfigMap" and there.tree.get("data") != tree["data"]:
            self._verbs.update(self._ask(tree), {**there.tree, "data": tree["data"]})

    def _of(self, namespace: str) -> Iterable[Tree]:
        entry = self._store.get("namespaces", "", namespace)
        gone = entry is None or "deletionTimestamp" in entry.tree["metadata"]
        return () if gone else self._companions(namespace)

    def _create(self, tree: Tree) -> None:
        ask = self._ask(tree)
        if self._store.get(ask.kind.store_bucket, ask.namespace, ask.name) is not None:
            return
        try:
            self._verbs.create(ask, tree)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise

    def _ask(self, tree: Tree) -> Ask:
        kind = self._catalog.named(tree["apiVersion"], tree["kind"])
        if kind is None:
            raise LookupError(f"{tree['kind']} of {tree['apiVersion']} is not served")
        meta = tree["metadata"]
        namespace = meta.get("namespace", "") if kind.namespaced else ""
        # What comes with a namespace is a controller's in Kubernetes, the rest the server's own.
        manager = "kube-controller-manager" if tree["kind"] in _BUCKETS else "kube-apiserver"
        return Ask(kind, tree["apiVersion"].rpartition("/")[2], namespace, meta["name"], _SERVER, manager)
