"""Initial objects of the cluster and of each namespace, created where missing.

The API creates the service account and the certificate bundle of a new namespace. Here they are updated when a lab
starts again (its authority may be new), recreated after a deletion, and restored after a change. The endpoints of the
Service ``kubernetes`` are updated at the start: the port may be new.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from allotment.apiserver.access.bootstrap import cluster_objects, token_tracking
from allotment.apiserver.kinds.kind import User
from allotment.apiserver.operation import Operation
from allotment.apiserver.served_kinds import Catalog
from allotment.apiserver.storage.store import Change, Store
from allotment.apiserver.verbs import Verbs
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree

log = logging.getLogger(__name__)

_SERVER = User("system:apiserver", ("system:masters", "system:authenticated"))
#: The buckets of the kinds of which every namespace has an object.
_BUCKETS = {"ServiceAccount": "serviceaccounts", "ConfigMap": "configmaps"}
#: The names of these objects.
_NAMES = frozenset({"default", "kube-root-ca.crt"})
#: The fields that keep their initial values.
_FIXED = {"ConfigMap": ("data",), "Endpoints": ("subsets",), "EndpointSlice": ("endpoints", "ports")}
#: The lists that get what a newer release adds, unless a user has turned that off.
_COMPLETED = {"ClusterRole": "rules", "Role": "rules", "ClusterRoleBinding": "subjects", "RoleBinding": "subjects"}
_AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"


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

    def begin(self, port: int, authentication: Tree | None = None) -> None:
        """Create what is missing now, of the kinds that are served, and recreate what is deleted later.

        ``port``: of the API. ``authentication``: the ConfigMap with the authorities of clients and of the server.
        """
        self._stop = [self._store.subscribe(bucket, self._changed) for bucket in _BUCKETS.values()]
        for tree in cluster_objects(self._verbs.features, port=port):
            if self._catalog.named(tree["apiVersion"], tree["kind"]) is not None:
                self._furnish(tree)
        if authentication is not None:
            self._furnish(authentication)
        self._create(token_tracking(self._verbs.now()[:10]))
        for entry in self._store.list("namespaces"):
            for tree in self._of(entry.name):
                self._furnish(tree)

    def end(self) -> None:
        """Stop restoring objects."""
        for stop in self._stop:
            stop()

    def _changed(self, change: Change) -> None:
        namespace, name = change.entry.namespace, change.entry.name
        if change.type == "ADDED" or name not in _NAMES:
            return
        for tree in self._of(namespace):
            if _BUCKETS[tree["kind"]] == change.resource and tree["metadata"]["name"] == name:
                try:
                    self._furnish(tree)
                except StatusError as error:  # such as a ConfigMap that a user has made immutable
                    log.warning("cannot restore %s %s/%s: %s", tree["kind"], namespace, name, error)

    def _furnish(self, tree: Tree) -> None:
        """Create an object, or restore the fields that keep their initial values."""
        call = self._call(tree)
        existing = self._store.get(call.kind.store_bucket, call.namespace, call.name)
        if existing is None:
            self._create(tree)
            return
        fixed = {field: tree[field] for field in _FIXED.get(tree["kind"], ())}
        completed = _COMPLETED.get(tree["kind"], "")
        if completed in tree and (existing.tree["metadata"].get("annotations") or {}).get(_AUTOUPDATE) == "true":
            stored = existing.tree.get(completed) or []
            fixed[completed] = [*stored, *(item for item in tree[completed] or () if item not in stored)]
        if any((existing.tree.get(field) or []) != (value or []) for field, value in fixed.items()):
            self._verbs.update(call, {**existing.tree, **fixed})

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
        is_companion = kind.namespaced and meta["name"] in _NAMES
        manager = "kube-controller-manager" if is_companion else "kube-apiserver"
        version = tree["apiVersion"].rpartition("/")[2]
        # Stored webhooks and policies must not prevent the start: the servers of the former start later.
        return Operation(kind, version, namespace, meta["name"], _SERVER, manager, is_admitted=True)
