"""Deletes objects: immediately, after a grace period, or when the last finalizer is removed.

An object with finalizers only gets a deletionTimestamp; the update that removes the last finalizer deletes it (see
``verbs``). Pods on a node stay until their grace period ends or the kubelet deletes them. Dependents are deleted by
the garbage collector; this module only adds and removes its finalizers.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from allotment.apiserver import api_errors, metadata
from allotment.apiserver.custom_resources.definitions import CLEANUP, DEFINITIONS, with_termination
from allotment.apiserver.kinds.kind import ServedKind
from allotment.apiserver.operation import Operation
from allotment.apiserver.request_options import DeleteOptions
from allotment.apiserver.storage.store import Entry
from allotment.apiserver.verbs import Verbs, is_removable, transient_entry
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
#: Namespaces that cannot be deleted.
_PROTECTED: Final = frozenset({"default", "kube-public", "kube-system"})


def delete(verbs: Verbs, operation: Operation, options: DeleteOptions) -> tuple[Entry, bool]:
    """Delete an object or start its deletion. Returns its last state, and whether it was removed."""
    kind = operation.kind
    entry = verbs.entry(operation)
    if kind.bucket == "namespaces" and operation.name in _PROTECTED:
        raise api_errors.forbidden(kind, operation.name, "this namespace may not be deleted")
    _preconditions(operation, options, entry)
    verbs.admission.restrict_node(operation, "DELETE", old=entry.tree)
    verbs.admission.admit(operation._replace(options=_as_tree(options)), "DELETE", old=entry.tree)
    tree = entry.tree
    before: Tree = tree["metadata"]
    if kind.bucket == "namespaces":
        return _delete_namespace(verbs, operation, entry)
    graceful = kind.bucket == "pods"
    meta = dict(before)
    now = verbs.now()
    if graceful:
        marked = _pod_deletion_metadata(tree, meta, options, now)
        if marked is None:  # already terminating, and the new grace period is not shorter
            return entry, False
    _adjust_finalizers(meta, kind, options)
    if kind.bucket == DEFINITIONS:
        return _delete_definition(verbs, operation, entry, meta), False
    if meta.get("finalizers"):
        if not graceful:
            _set_deletion_timestamp(meta, now)
        return _store_metadata(verbs, operation, entry, meta), False
    if graceful:
        # Watchers see a pod with its deletionTimestamp before it is removed, even without a grace period.
        entry = _store_metadata(verbs, operation, entry, meta)
        if meta.get("deletionGracePeriodSeconds"):
            return entry, False
    if operation.dry_run:
        return entry, True
    return verbs.remove(operation), True


def _as_tree(options: DeleteOptions) -> Tree:
    """The fields of DeleteOptions that are set."""
    preconditions = {"uid": options.uid, "resourceVersion": options.revision}
    tree = {
        "gracePeriodSeconds": options.grace,
        "preconditions": {key: value for key, value in preconditions.items() if value is not None} or None,
        "orphanDependents": options.orphan,
        "propagationPolicy": options.propagation or None,
    }
    return {key: value for key, value in tree.items() if value is not None}


def _preconditions(operation: Operation, options: DeleteOptions, entry: Entry) -> None:
    kind, meta = operation.kind, entry.tree["metadata"]
    if options.uid is not None and options.uid != meta["uid"]:
        reason = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise api_errors.conflict(kind.group, kind.kind, operation.name, reason)
    if options.revision is not None and options.revision != meta["resourceVersion"]:
        reason = (
            f"the ResourceVersion in the precondition ({options.revision}) does not match the ResourceVersion in "
            f"record ({meta['resourceVersion']}). The object might have been modified"
        )
        raise api_errors.conflict(kind.group, kind.kind, operation.name, reason)


def _pod_deletion_metadata(pod: Tree, meta: Tree, options: DeleteOptions, now: str) -> Tree | None:
    """The pod's metadata with deletion time and grace period; None if it is terminating and not shortened."""
    current = meta.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" in meta:
        if current is None:
            return meta
        if options.grace is None or options.grace >= current:
            return None
        started = _parse_time(meta["deletionTimestamp"]) - timedelta(seconds=current)
        grace = max(options.grace, 0) if options.grace != -1 else 1
        meta["deletionTimestamp"] = (started + timedelta(seconds=grace)).strftime(_TIME)
        meta["deletionGracePeriodSeconds"] = grace
        return meta
    grace = pod_grace(pod, options.grace)
    meta["deletionTimestamp"] = (_parse_time(now) + timedelta(seconds=grace)).strftime(_TIME)
    meta["deletionGracePeriodSeconds"] = grace
    if meta.get("generation"):
        meta["generation"] += 1
    return meta


def _parse_time(text: str) -> datetime:
    return datetime.strptime(text, _TIME).replace(tzinfo=UTC)


def pod_grace(pod: Tree, requested: int | None) -> int:
    """The grace period of a pod in seconds; 0 if it is not scheduled or has finished."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    seconds = requested if requested is not None else spec.get("terminationGracePeriodSeconds")
    seconds = 30 if seconds is None else int(seconds)
    return 1 if seconds < 0 else seconds


def _set_deletion_timestamp(meta: Tree, now: str) -> None:
    """Mark an object as terminating while finalizers block its removal."""
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = now
        if meta.get("generation"):
            meta["generation"] += 1
    meta["deletionGracePeriodSeconds"] = 0


def _store_metadata(verbs: Verbs, operation: Operation, entry: Entry, meta: Tree) -> Entry:
    meta = metadata.ordered(meta)
    if meta == entry.tree["metadata"]:
        return entry
    tree = {**entry.tree, "metadata": meta}
    if operation.dry_run:
        return transient_entry(operation.namespace, operation.name, tree)
    return verbs.store.put(operation.kind.store_bucket, operation.namespace, operation.name, tree)


def _adjust_finalizers(meta: Tree, kind: ServedKind, options: DeleteOptions) -> None:
    """Add and remove the garbage collector's finalizers according to the propagation policy."""
    current: Sequence[str] = meta.get("finalizers") or ()
    finalizers = [finalizer for finalizer in current if finalizer not in (ORPHAN, FOREGROUND)]
    specified = options.propagation or options.orphan is not None
    orphan = options.propagation == "Orphan" or options.orphan is True
    foreground = options.propagation == "Foreground"
    if not specified:
        orphan = ORPHAN in current or (kind.orphans_dependents and FOREGROUND not in current)
        foreground = FOREGROUND in current and not orphan
    finalizers += [ORPHAN] if orphan else []
    finalizers += [FOREGROUND] if foreground else []
    if set(finalizers) != set(current):
        meta["finalizers"] = finalizers


def _delete_namespace(verbs: Verbs, operation: Operation, entry: Entry) -> tuple[Entry, bool]:
    """Mark a namespace as Terminating; it is removed when metadata.finalizers and spec.finalizers are empty."""
    tree = entry.tree
    meta = dict(tree["metadata"])
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = verbs.now()
        tree = {**tree, "status": {**(tree.get("status") or {}), "phase": "Terminating"}}
        tree["metadata"] = metadata.ordered(meta)
        if operation.dry_run:
            return transient_entry("", operation.name, tree), False
        if not is_removable(tree):
            return verbs.store.put("namespaces", "", operation.name, tree), False
    elif not is_removable(tree):
        return entry, False
    if operation.dry_run:
        return entry, True
    return verbs.store.delete("namespaces", "", operation.name), True


def _delete_definition(verbs: Verbs, operation: Operation, entry: Entry, meta: Tree) -> Entry:
    """Mark a definition as Terminating; it is removed when its objects are gone."""
    if "deletionTimestamp" in meta:
        return _store_metadata(verbs, operation, entry, meta)
    now = verbs.now()
    finalizers = [name for name in meta.get("finalizers") or () if name != CLEANUP]
    meta |= {"finalizers": [*finalizers, CLEANUP], "deletionTimestamp": now}
    message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    tree = with_termination(entry.tree, "True", "InstanceDeletionPending", message, now)
    return _store_metadata(verbs, operation, Entry(entry.namespace, entry.name, 0, tree, b""), meta)


def response_body(kind: ServedKind, version: str, entry: Entry, is_deleted: bool) -> Tree | None:
    """The Status that a deletion returns; None if the object itself is the response body."""
    if not is_deleted or kind.deletion_returns_object(version):
        return None
    details = {"name": entry.name, "group": kind.group, "kind": kind.plural, "uid": entry.tree["metadata"]["uid"]}
    return api_errors.success({key: value for key, value in details.items() if value})


async def delete_all(
    verbs: Verbs, operation: Operation, entries: Sequence[Entry], options: DeleteOptions, warnings: list[str]
) -> None:
    """Delete the entries of a list; entries already deleted are skipped."""
    for entry in entries:
        target = operation._replace(name=entry.name, namespace=entry.namespace, is_collection=True)
        try:
            await verbs.admitted(partial(delete, verbs, target, options), warnings)
        except StatusError as error:
            if error.reason != "NotFound":
                raise
