"""Deletion of CustomResourceDefinitions: their objects are deleted first, and those with finalizers are waited for.

In the meantime objects of the kind can be read, changed and deleted, but not created. The condition Terminating reports
the progress.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from allotment.apiserver import deletion
from allotment.apiserver.custom_resources.definitions import CLEANUP, DEFINITIONS, with_termination
from allotment.apiserver.operation import Operation, server_operation
from allotment.apiserver.request_options import DeleteOptions
from allotment.apiserver.storage.store import Change
from allotment.apiserver.verbs import Verbs
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree

log = logging.getLogger(__name__)


class DefinitionCleanup:
    """Follows the deletion of definitions until :meth:`close`."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        #: Definitions whose objects are being deleted, and how to stop watching these.
        self._watched: dict[str, Callable[[], None]] = {}
        self._stop = verbs.store.subscribe(DEFINITIONS, self._definition_changed)

    def begin(self) -> None:
        """Continue the deletions that were not complete when the store was opened; needs a running event loop."""
        for entry in self._verbs.store.list(DEFINITIONS):
            self._follow(entry.name, entry.tree)

    def close(self) -> None:
        """Remove the subscriptions to the store."""
        for stop in (self._stop, *self._watched.values()):
            stop()

    def _definition_changed(self, change: Change) -> None:
        if change.type == "DELETED":
            if (stop := self._watched.pop(change.entry.name, None)) is not None:
                stop()
        else:
            self._follow(change.entry.name, change.entry.tree)

    def _follow(self, name: str, definition: Tree) -> None:
        meta = definition["metadata"]
        if name in self._watched or "deletionTimestamp" not in meta or CLEANUP not in (meta.get("finalizers") or ()):
            return
        self._watched[name] = self._verbs.store.subscribe(name, partial(self._object_changed, name))
        # The write that deletes the definition is complete before its objects are deleted.
        asyncio.get_running_loop().call_soon(self._clean_up, name)

    def _object_changed(self, name: str, change: Change) -> None:
        if change.type == "DELETED" and not self._verbs.store.list(name):
            asyncio.get_running_loop().call_soon(self._complete, name)

    def _clean_up(self, name: str) -> None:
        """Delete the objects of a definition."""
        definition = self._definition(name)
        if definition is None:
            return
        try:
            self._write(definition, "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
            self._delete_objects(name)
        except StatusError as error:  # such as a policy that denies it
            log.warning("cannot delete the objects of %s: %s", name, error)
            return
        if not self._verbs.store.list(name):
            self._complete(name)

    def _delete_objects(self, name: str) -> None:
        plural, _, group = name.partition(".")
        for kind in self._verbs.catalog.custom:
            if (kind.plural, kind.group) == (plural, group):
                for entry in tuple(self._verbs.store.list(name)):
                    target = server_operation(kind, kind.storage_version, entry.namespace, entry.name)
                    deletion.delete(self._verbs, target, DeleteOptions())

    def _complete(self, name: str) -> None:
        """Remove the finalizer of a definition without objects."""
        definition = self._definition(name)
        if definition is None:
            return
        try:
            written = self._write(definition, "False", "InstanceDeletionCompleted", "removed all instances")
            finalizers = [finalizer for finalizer in written["metadata"]["finalizers"] if finalizer != CLEANUP]
            metadata = {**written["metadata"], "finalizers": finalizers}
            self._verbs.update(self._operation(name), {**written, "metadata": metadata})
        except StatusError as error:
            log.warning("cannot remove the finalizer of %s: %s", name, error)

    def _definition(self, name: str) -> Tree | None:
        """The definition, if it still waits for its objects."""
        entry = self._verbs.store.get(DEFINITIONS, "", name)
        return entry.tree if entry is not None and CLEANUP in (entry.tree["metadata"].get("finalizers") or ()) else None

    def _operation(self, name: str, subresource: str = "") -> Operation:
        kind = self._verbs.catalog.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        assert kind is not None, "definitions are always served"
        return server_operation(kind, "v1", "", name, subresource)

    def _write(self, definition: Tree, status: str, reason: str, message: str) -> Tree:
        tree = with_termination(definition, status, reason, message, self._verbs.now())
        return self._verbs.update(self._operation(definition["metadata"]["name"], "status"), tree).tree
