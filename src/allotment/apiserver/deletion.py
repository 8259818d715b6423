"""Deleting objects: at once, after a grace, or when nothing holds them back any more.

What is held by a finalizer is only marked; who removes the last finalizer deletes it (see ``verbs``). Pods on a node
are marked, too, until their time is over or the kubelet says that they are gone. Dependents are the garbage
collector's: here only its finalizers are put on and taken off.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from allotment.apiserver import api_errors, metadata
from allotment.apiserver.kinds.kind import ServedKind
from allotment.apiserver.request_options import DeleteOptions
from allotment.apiserver.storage.store import Entry
from allotment.apiserver.verbs import Ask, Verbs, released, unstored
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
#: Namespaces without which a cluster is none.
_IMMORTAL: Final = frozenset({"default", "kube-public", "kube-system"})


def delete(verbs: Verbs, ask: Ask, options: DeleteOptions) -> tuple[Entry, bool]:
    """Delete an object or begin to. Gives its last state, and whether it is gone."""
    kind = ask.kind
    entry = verbs.entry(ask)
    if kind.bucket == "namespaces" and ask.name in _IMMORTAL:
        raise api_errors.forbidden(kind, ask.name, "this namespace may not be deleted")
    _preconditions(ask, options, entry)
    tree = entry.tree
    before: Tree = tree["metadata"]
    if kind.bucket == "namespaces":
        return _delete_namespace(verbs, ask, entry)
    graceful = kind.bucket == "pods"
    meta = dict(before)
    now = verbs.now()
    if graceful:
        marked = _marked_pod(tree, meta, options, now)
        if marked is None:  # already on its way, and nobody wants it faster
            return entry, False
    _adjust_finalizers(meta, kind, options)
    if meta.get("finalizers"):
        if not graceful:
            _mark(meta, now)
        return _marked(verbs, ask, entry, meta), False
    if graceful:
        # The kubelet, or here nobody, has a last look at a pod: it is seen with its mark before it is gone.
        entry = _marked(verbs, ask, entry, meta)
        if meta.get("deletionGracePeriodSeconds"):
            return entry, False
    if ask.dry_run:
        return entry, True
    return verbs.remove(ask), True


def _preconditions(ask: Ask, options: DeleteOptions, entry: Entry) -> None:
    kind, meta = ask.kind, entry.tree["metadata"]
    if options.uid is not None and options.uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise api_errors.conflict(kind.group, kind.kind, ask.name, why)
    if options.revision is not None and options.revision != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({options.revision}) does not match the ResourceVersion in "
            f"record ({meta['resourceVersion']}). The object might have been modified"
        )
        raise api_errors.conflict(kind.group, kind.kind, ask.name, why)


def _marked_pod(pod: Tree, meta: Tree, options: DeleteOptions, now: str) -> Tree | None:
    """The metadata with a pod's time of deletion; None if it has one that is not to be shortened."""
    present = meta.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" in meta:
        if present is None:
            return meta
        if options.grace is None or options.grace >= present:
            return None
        begun = _moment(meta["deletionTimestamp"]) - timedelta(seconds=present)
        grace = max(options.grace, 0) if options.grace != -1 else 1
        meta["deletionTimestamp"] = (begun + timedelta(seconds=grace)).strftime(_TIME)
        meta["deletionGracePeriodSeconds"] = grace
        return meta
    grace = pod_grace(pod, options.grace)
    meta["deletionTimestamp"] = (_moment(now) + timedelta(seconds=grace)).strftime(_TIME)
    meta["deletionGracePeriodSeconds"] = grace
    if meta.get("generation"):
        meta["generation"] += 1
    return meta


def _moment(text: str) -> datetime:
    return datetime.strptime(text, _TIME).replace(tzinfo=UTC)


def pod_grace(pod: Tree, asked: int | None) -> int:
    """How many seconds a pod is given to end; none where no kubelet has it, or nothing of it runs."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    seconds = asked if asked is not None else spec.get("terminationGracePeriodSeconds")
    seconds = 30 if seconds is None else int(seconds)
    return 1 if seconds < 0 else seconds


def _mark(meta: Tree, now: str) -> None:
    """Mark what cannot go yet because of its finalizers."""
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = now
        if meta.get("generation"):
            meta["generation"] += 1
    meta["deletionGracePeriodSeconds"] = 0


def _marked(verbs: Verbs, ask: Ask, entry: Entry, meta: Tree) -> Entry:
    meta = metadata.ordered(meta)
    if meta == entry.tree["metadata"]:
        return entry
    tree = {**entry.tree, "metadata": meta}
    if ask.dry_run:
        return unstored(ask.namespace, ask.name, tree)
    return verbs.store.put(ask.kind.store_bucket, ask.namespace, ask.name, tree)


def _adjust_finalizers(meta: Tree, kind: ServedKind, options: DeleteOptions) -> None:
    """Put on and take off the garbage collector's finalizers, as this deletion wants its dependents treated."""
    present: Sequence[str] = meta.get("finalizers") or ()
    wanted = [finalizer for finalizer in present if finalizer not in (ORPHAN, FOREGROUND)]
    said = options.propagation or options.orphan is not None
    orphan = options.propagation == "Orphan" or options.orphan is True
    foreground = options.propagation == "Foreground"
    if not said:
        orphan = ORPHAN in present or (kind.orphans_dependents and FOREGROUND not in present)
        foreground = FOREGROUND in present and not orphan
    wanted += [ORPHAN] if orphan else []
    wanted += [FOREGROUND] if foreground else []
    if set(wanted) != set(present):
        meta["finalizers"] = wanted


def _delete_namespace(verbs: Verbs, ask: Ask, entry: Entry) -> tuple[Entry, bool]:
    """Namespaces are emptied first: they stay, terminating, until their finalizers of both sorts are gone."""
    tree = entry.tree
    meta = dict(tree["metadata"])
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = verbs.now()
        tree = {**tree, "status": {**(tree.get("status") or {}), "phase": "Terminating"}}
        tree["metadata"] = metadata.ordered(meta)
        if ask.dry_run:
            return unstored("", ask.name, tree), False
        if not released(tree):
            return verbs.store.put("namespaces", "", ask.name, tree), False
    elif not released(tree):
        return entry, False
    if ask.dry_run:
        return entry, True
    return verbs.store.delete("namespaces", "", ask.name), True


def outcome(kind: ServedKind, entry: Entry, gone: bool) -> Tree | None:
    """What a deletion answers: a Status for what is gone, unless its kind shows the object. None: show the object."""
    if not gone or kind.delete_returns_object:
        return None
    details = {"name": entry.name, "group": kind.group, "kind": kind.plural, "uid": entry.tree["metadata"]["uid"]}
    return api_errors.success({key: value for key, value in details.items() if value})


def delete_all(verbs: Verbs, ask: Ask, entries: Sequence[Entry], options: DeleteOptions) -> None:
    """Delete what a list showed; what is gone meanwhile is gone."""
    for entry in entries:
        one = ask._replace(name=entry.name, namespace=entry.namespace)
        try:
            delete(verbs, one, options)
        except StatusError as error:
            if error.reason != "NotFound":
                raise
