"""Garbage collector: deletes dependents of deleted owners, in the background or foreground, or orphans them.

The collector stores the uid, the owners and the dependents of every object. It acts on few: on dependents of deleted
objects, on objects that name an unknown owner, and on owners that wait for their dependents. An owner that is missing
in the caches is read from the API before anything is deleted, because a cache may be behind.

Objects may own each other. In the foreground each of them would wait for the next one, so the collector breaks such a
cycle, as Kubernetes does: a member that is due, and whose own dependents already wait for their own, stops blocking its
owners before it is deleted. Where a client deleted all members of a cycle in the foreground, no member is left at which
it could be broken, and they stay (in Kubernetes, too) until a client removes a finalizer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.caches import all_synced
from allotment.cluster.client import Propagation, Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext
from allotment.cluster.resources import CUSTOM_KINDS
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.kinds import BUILT_IN, defined
from allotment.model.trees import Tree

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
#: Owners of deleted kinds and absent owners are cached, so that each is read from the API once.
_MOST_ABSENT: Final = 10_000


class _Object(NamedTuple):
    """The location of an object."""

    resource: Resource
    namespace: str
    name: str
    uid: str


async def garbage(context: ProgramContext) -> None:
    """Run the garbage collector."""
    await _Collector(context).run()


class _Collector:
    def __init__(self, context: ProgramContext) -> None:
        self._context = context
        self._client = context.client_for("generic-garbage-collector")
        self._caches: dict[Resource, Cache[Any]] = {}
        self._stops: dict[Resource, Callable[[], None]] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        self._objects: dict[str, _Object] = {}
        self._dependents: dict[str, dict[str, _Object]] = {}
        self._absent: dict[tuple[str, str], None] = {}
        self._ready = False
        self._queue: WorkQueue[_Object] = WorkQueue(
            "garbage", self._sync, clock=context.clock, random=context.random, workers=32
        )

    async def run(self) -> None:
        try:
            for resource in BUILT_IN:
                self._follow(resource)
            definitions = self._caches[CUSTOM_KINDS]
            await definitions.synced.wait()
            stop = definitions.on_change(self._definition_changed)
            self._stops[CUSTOM_KINDS._replace(plural="")] = stop
            await all_synced(*self._caches.values())
            self._ready = True
            for found in tuple(self._objects.values()):
                self._enqueue_if_needed(found)
            await self._queue.run()
        finally:
            for stop in self._stops.values():
                stop()

    # --- graph --------------------------------------------------------------------------------------------

    def _follow(self, resource: Resource) -> None:
        cache = self._caches[resource] = self._context.caches.trees(resource)
        self._by_kind[resource.group, resource.kind] = resource

        def changed(old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
            self._changed(resource, old, new)

        self._stops[resource] = cache.on_change(changed)

    def _definition_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        before = set(defined(old)) if old else set()
        after = set(defined(new)) if new else set()
        for resource in before - after:
            if resource in self._caches:
                self._stops.pop(resource)()
                self._by_kind.pop((resource.group, resource.kind), None)
                for item in self._caches.pop(resource).items():
                    self._forget(_Object(resource, item.namespace, item.name, item.uid), item)
        # Delayed: the same objects are added again when the storage version changes.
        for resource in after - before:
            if resource not in self._caches:
                self._follow(resource)

    def _changed(self, resource: Resource, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is None:
            if old is not None:
                self._forget(_Object(resource, old.namespace, old.name, old.uid), old)
            return
        owners = new.metadata.get("ownerReferences") or ()
        if old is None:
            found = _Object(resource, new.namespace, new.name, new.uid)
            self._objects[new.uid] = found
        else:
            found = self._objects.setdefault(new.uid, _Object(resource, new.namespace, new.name, new.uid))
            before = old.metadata.get("ownerReferences") or ()
            if before is not owners and before != owners:
                self._unlink(old)
                self._enqueue_waiting_owners(before)
            elif old.deleting == new.deleting and old.metadata.get("finalizers") == new.metadata.get("finalizers"):
                return
        for owner in owners:
            self._dependents.setdefault(owner["uid"], {})[new.uid] = found
        if self._ready:
            self._enqueue_if_needed(found)

    def _forget(self, found: _Object, old: CachedItem[Any]) -> None:
        self._objects.pop(found.uid, None)
        self._unlink(old)
        for dependent in tuple(self._dependents.get(found.uid, {}).values()):
            self._queue.add(dependent)
        self._enqueue_waiting_owners(old.metadata.get("ownerReferences") or ())

    def _enqueue_waiting_owners(self, owners: Iterable[Tree]) -> None:
        """Enqueue the owners of a deleted object: it may have been the last dependent one waited for."""
        for owner in owners:
            waiting = self._objects.get(owner["uid"])
            if waiting is not None and self._waits(waiting):
                self._queue.add(waiting)

    def _unlink(self, old: CachedItem[Any]) -> None:
        for owner in old.metadata.get("ownerReferences") or ():
            dependents = self._dependents.get(owner["uid"])
            if dependents is not None:
                dependents.pop(old.uid, None)
                if not dependents:
                    del self._dependents[owner["uid"]]

    def _enqueue_if_needed(self, found: _Object) -> None:
        """Enqueue an object if it may require an action."""
        item = self._item(found)
        if item is None:
            return
        if item.deleting:
            if self._waits(found):
                self._queue.add(found)
            return
        for owner in item.metadata.get("ownerReferences") or ():
            known = self._objects.get(owner["uid"])
            if known is None or known.namespace not in ("", item.namespace) or self._waits(known):
                self._queue.add(found)
                return

    def _item(self, found: _Object) -> CachedItem[Any] | None:
        cache = self._caches.get(found.resource)
        item = cache.item(found.namespace, found.name) if cache else None
        return item if item is not None and item.uid == found.uid else None

    def _waits(self, found: _Object, finalizer: str = "") -> bool:
        """Whether an object is being deleted and waits for the collector."""
        item = self._item(found)
        if item is None or not item.deleting:
            return False
        finalizers = item.metadata.get("finalizers") or ()
        return finalizer in finalizers if finalizer else FOREGROUND in finalizers or ORPHAN in finalizers

    # --- actions ---------------------------------------------------------------------------------------------

    async def _sync(self, found: _Object) -> None:
        item = self._item(found)
        if item is None:
            return
        if item.deleting:
            if self._waits(found, ORPHAN):
                await self._orphan(found)
            if self._waits(found, FOREGROUND):
                await self._finish_foreground(found)
            return
        owners = item.metadata.get("ownerReferences") or ()
        if not owners:
            return
        solid, waiting, gone = [], [], []
        for owner in owners:
            known = await self._owner(item, owner)
            if known is None:
                gone.append(owner)
            elif self._waits(known, FOREGROUND):
                waiting.append(owner)
            else:
                solid.append(owner)
        if solid:
            if gone or waiting:
                await self._write(found, {**item.metadata, "ownerReferences": solid}, item)
            return
        dependents = self._all_dependents(found)
        finalizers = item.metadata.get("finalizers") or ()
        if waiting and dependents:
            if any(self._waits(dependent, FOREGROUND) for dependent in dependents):
                await self._unblock(found, item, owners)
            await self._delete(found, "Foreground")
        elif ORPHAN in finalizers:
            await self._delete(found, "Orphan")
        else:
            await self._delete(found, "Foreground" if FOREGROUND in finalizers else "Background")

    async def _unblock(self, found: _Object, item: CachedItem[Any], owners: Sequence[Tree]) -> None:
        """Stop blocking the owners of an object: a dependent waits, in a cycle perhaps for the object itself."""
        if any(owner.get("blockOwnerDeletion") for owner in owners):
            unblocked = [{**owner, "blockOwnerDeletion": False} for owner in owners]
            await self._write(found, {**item.metadata, "ownerReferences": unblocked}, item)

    async def _delete(self, found: _Object, propagation: Propagation) -> None:
        item = self._item(found)
        if item is None:
            return
        try:
            await self._client.delete(
                found.resource, found.name, found.namespace, uid=found.uid, propagation=propagation,
                revision=item.metadata.get("resourceVersion", ""),
            )  # fmt: skip
        except StatusError as error:
            if error.code != 404:
                raise

    async def _orphan(self, found: _Object) -> None:
        await asyncio.gather(
            *(self._remove_reference(dependent, found.uid) for dependent in self._all_dependents(found))
        )
        await self._drop_finalizer(found, ORPHAN)

    async def _remove_reference(self, dependent: _Object, uid: str) -> None:
        item = self._item(dependent)
        if item is not None:
            kept = [owner for owner in item.metadata.get("ownerReferences") or () if owner["uid"] != uid]
            await self._write(dependent, {**item.metadata, "ownerReferences": kept}, item)

    async def _finish_foreground(self, found: _Object) -> None:
        if not self._blocking(found):
            await self._drop_finalizer(found, FOREGROUND)
            return
        for dependent in self._all_dependents(found):
            # Waiting dependents are processed when their dependents change; in a cycle, each would enqueue the next.
            if not self._waits(dependent, FOREGROUND):
                self._queue.add(dependent)

    def _all_dependents(self, found: _Object) -> Sequence[_Object]:
        return tuple(self._dependents.get(found.uid, {}).values())

    def _blocking(self, found: _Object) -> bool:
        """Whether a dependent blocks the deletion of the owner."""
        for dependent in self._all_dependents(found):
            item = self._item(dependent)
            for owner in (item.metadata.get("ownerReferences") or ()) if item else ():
                if owner["uid"] == found.uid and owner.get("blockOwnerDeletion"):
                    return True
        return False

    async def _drop_finalizer(self, found: _Object, finalizer: str) -> None:
        item = self._item(found)
        if item is None:
            return
        rest = [name for name in item.metadata.get("finalizers") or () if name != finalizer]
        await self._write(found, {**item.metadata, "finalizers": rest}, item)

    async def _write(self, found: _Object, metadata: Tree, item: CachedItem[Any]) -> None:
        for field in ("finalizers", "ownerReferences"):
            if not metadata.get(field):
                metadata.pop(field, None)
        try:
            answer = await self._client.update(found.resource, {**item.tree, "metadata": metadata})
        except StatusError as error:
            if error.code != 404:
                raise
        else:
            self._caches[found.resource].record_write(answer)

    async def _owner(self, item: CachedItem[Any], owner: Tree) -> _Object | None:
        """The owner that a reference names; None only when the API reports that it does not exist."""
        known = self._objects.get(owner["uid"])
        if known is not None and known.namespace in ("", item.namespace):
            return known
        if (owner["uid"], item.namespace) in self._absent:
            return None
        resource = self._by_kind.get((owner["apiVersion"].rpartition("/")[0], owner["kind"]))
        if resource is None:
            # A kind that is not watched: keeping the object is safer than deleting it by mistake.
            return _Object(CUSTOM_KINDS, item.namespace, owner["name"], owner["uid"])
        if not (resource.namespaced and not item.namespace):
            try:
                tree = await self._client.get(resource, owner["name"], item.namespace if resource.namespaced else "")
            except StatusError as error:
                if error.code != 404:
                    raise
            else:
                if tree["metadata"]["uid"] == owner["uid"]:
                    return _Object(resource, tree["metadata"].get("namespace", ""), owner["name"], owner["uid"])
        self._absent[owner["uid"], item.namespace] = None
        if len(self._absent) > _MOST_ABSENT:
            del self._absent[next(iter(self._absent))]
        return None
