"""The client of programs in this process: the verbs themselves, without bytes, sockets or paths between.

Reads give the store's own trees, shared by all. Writes are checked as strictly as kubectl's, for a program's slip is
its author's to mend. They return when they are durable, like any client's; but a program that has a :class:`TimeSlice` lives
and dies with the store, so that nothing it learns too early can outlive what it learned: it waits for no disk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec

from allotment.apiserver import api_errors, bodies, deletion, scale
from allotment.apiserver import patch as patching
from allotment.apiserver.api import Api
from allotment.apiserver.conversion import in_version
from allotment.apiserver.kinds.kind import ServedKind, User
from allotment.apiserver.reads import paging
from allotment.apiserver.reads import watch as watching
from allotment.apiserver.reads.selectors import exact_name, selection
from allotment.apiserver.request_options import DeleteOptions, ListOptions, WriteOptions
from allotment.apiserver.storage.store import Entry
from allotment.apiserver.verbs import Operation
from allotment.cluster.client import Event, Listing, PatchKind, Propagation, Resource
from allotment.model.trees import Tree

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def copy_unshared(tree: Any, stored: Any) -> Any:
    """A copy, for whoever gave the tree may change it; what it shares with the stored one is not copy_unshared."""
    if tree is stored:
        return tree
    if type(tree) is dict and type(stored) is dict:
        return {name: copy_unshared(value, stored.get(name)) for name, value in tree.items()}
    return tree if type(tree) in _SCALARS else _decode(_encode(tree))


_SCALARS = frozenset({str, int, bool, float, type(None)})

#: Seconds of work after which programs that wait for nothing let everybody else have a turn.
_TIME_SLICE: Final = 0.003


class TimeSlice:
    """The programs of one event loop: how long this turn has been."""

    def __init__(self) -> None:
        self._start = 0.0

    async def yield_if_used_up(self) -> None:
        """Go on, after a turn of everybody else if this one has become long."""
        if not self._start:
            self._start = time.monotonic()
            asyncio.get_running_loop().call_soon(self._end)
        elif time.monotonic() - self._start > _TIME_SLICE:
            await asyncio.sleep(0)

    def _end(self) -> None:
        self._start = 0.0


class LocalClient:
    """A :class:`~allotment.cluster.client.Client` on an API in this process; see the module for ``time_slice``."""

    def __init__(self, api: Api, user: User, manager: str, time_slice: TimeSlice | None = None) -> None:
        self._api = api
        self._time_slice = time_slice
        self._user = user
        self._manager = manager

    def _kind(self, resource: Resource) -> ServedKind:
        kind = self._api.catalog.find(resource.group, resource.version, resource.plural)
        if kind is None:
            raise api_errors.unknown_path()
        return kind

    def _operation(
        self, resource: Resource, namespace: str, name: str, subresource: str, dry_run: bool, verb: str,
        only_name: str = "",
    ) -> Operation:  # fmt: skip
        kind = self._kind(resource)
        self._api.allow(self._user, verb, kind, namespace, name, subresource, only_name)
        if subresource and subresource not in kind.subresources:
            raise api_errors.unknown_path()
        return Operation(kind, resource.version, namespace, name, self._user, self._manager, subresource, dry_run)

    async def _wait_until_durable(self, revision: int | None = None) -> None:
        """When an answer may be given."""
        if self._time_slice is not None:
            await self._time_slice.yield_if_used_up()
        else:
            await self._api.store.durable(revision)

    async def _result(self, operation: Operation, entry: Entry) -> Tree:
        await self._wait_until_durable(entry.revision)
        return in_version(operation.kind, operation.version, entry.tree)

    # --- reading -----------------------------------------------------------------------------------------------------

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Tree:
        """One object."""
        operation = self._operation(resource, namespace, name, subresource, False, "get")
        entry = self._api.verbs.entry(operation)
        if subresource == "scale":
            await self._wait_until_durable(entry.revision)
            return scale.view(entry, operation.kind)
        return await self._result(operation, entry)

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0
    ) -> Listing:
        """All objects. Pages are for clients on the other end of a wire; here one is enough."""
        operation = self._operation(resource, namespace, "", "", False, "list", exact_name(fields))
        kind, version = operation.kind, operation.version
        wanted = selection(kind, version, labels, fields)
        page = paging.page(self._api.store, kind.store_bucket, namespace or None, ListOptions(), wanted)
        await self._wait_until_durable(page.revision)
        if version == kind.versions[0] and not kind.stored_as:
            return Listing([entry.tree for entry in page.entries], str(page.revision))
        return Listing([in_version(kind, version, entry.tree) for entry in page.entries], str(page.revision))

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Event]:
        """Changes after ``revision``."""
        operation = self._operation(resource, namespace, "", "", False, "watch", exact_name(fields))
        kind, version = operation.kind, operation.version
        wanted = selection(kind, version, labels, fields)
        options = ListOptions(revision=int(revision or 0), watch=True, bookmarks=True)
        watch = watching.Watch(
            self._api.store, kind.store_bucket, namespace or None, options, wanted, early=self._time_slice is not None
        )
        batches = watch.batches()
        try:
            async for batch in batches:
                for change in batch:
                    yield Event(watching.event_type(change), watching.seen_tree(kind, version, change))
        finally:
            watch.close()
            await batches.aclose()

    # --- writing -----------------------------------------------------------------------------------------------------

    def _checked_copy(self, operation: Operation, tree: Tree, stored: Tree | None = None) -> Tree:
        """A checked copy, which shares with the stored state what the program has not touched."""
        copy = copy_unshared(tree, stored)
        bodies.check_kind(copy, operation.kind, operation.version)
        return bodies.validated(
            bodies.DecodedBody(copy),
            operation.kind,
            operation.version,
            "Strict",
            operation.warn,
            exact=False,
            stored=stored,
        )

    def _stored_tree(self, operation: Operation) -> Tree | None:
        """The stored state, as far as parts of it can stand in objects of the version that is asked for."""
        entry = self._api.store.get(operation.kind.store_bucket, operation.namespace, operation.name)
        return (
            None
            if entry is None or in_version(operation.kind, operation.version, entry.tree) is not entry.tree
            else entry.tree
        )

    async def create(
        self, resource: Resource, tree: Tree, namespace: str = "", *, name: str = "", subresource: str = "",
        dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """A new object, or a call on one."""
        namespace = namespace or (tree.get("metadata") or {}).get("namespace") or ""
        namespace = namespace if resource.namespaced else ""
        tree = bodies.in_namespace(tree, namespace)
        if subresource or resource.plural == "bindings" or not self._is_stored(resource):
            return await self._call(resource, tree, namespace, name, subresource, dry_run)
        operation = self._operation(resource, namespace, "", "", dry_run, "create")
        return await self._result(operation, self._api.verbs.create(operation, self._checked_copy(operation, tree)))

    def _is_stored(self, resource: Resource) -> bool:
        return self._kind(resource).verbs != ("create",)

    async def _call(
        self, resource: Resource, tree: Tree, namespace: str, name: str, subresource: str, dry_run: bool
    ) -> Tree:
        operation = self._operation(resource, namespace, name, subresource, dry_run, "create")
        result = self._api.call(operation, tree)
        await self._wait_until_durable()
        return result

    async def update(self, resource: Resource, tree: Tree, *, subresource: str = "", dry_run: bool = False) -> Tree:
        """Replace an object."""
        meta = tree.get("metadata") or {}
        namespace = (meta.get("namespace") or "") if resource.namespaced else ""
        operation = self._operation(resource, namespace, meta.get("name") or "", subresource, dry_run, "update")
        if subresource == "scale":
            entry = scale.write(self._api.verbs, operation, tree)
            await self._wait_until_durable(entry.revision)
            return scale.view(entry, operation.kind)
        if operation.kind.create_on_update:
            self._api.allow_new(self._user, operation.kind, namespace, operation.name)
        return await self._result(
            operation,
            self._api.verbs.update(operation, self._checked_copy(operation, tree, self._stored_tree(operation))),
        )

    async def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", *, kind: PatchKind = "merge",
        subresource: str = "", force: bool = False, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Change an object by a patch."""
        operation = self._operation(resource, namespace, name, subresource, dry_run, "patch")
        if subresource == "scale":
            wanted = patching.patched_scale(scale.view(self._api.verbs.entry(operation), operation.kind), kind, patch)
            entry = scale.write(self._api.verbs, operation, wanted)
            await self._wait_until_durable(entry.revision)
            return scale.view(entry, operation.kind)
        if kind == "apply":
            self._api.allow_new(self._user, operation.kind, namespace, name)
        options = WriteOptions(dry_run, self._manager, "Strict", force if kind == "apply" else None)
        # Patched parts go into the object as they are: a copy, for the same reason as whole objects.
        entry, _ = patching.patch(self._api.verbs, operation, kind, copy_unshared(patch, None), options)
        return await self._result(operation, entry)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, uid: str = "", revision: str = "",
        grace_seconds: int | None = None, propagation: Propagation | None = None, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Delete an object."""
        operation = self._operation(resource, namespace, name, "", dry_run, "delete")
        options = DeleteOptions(grace_seconds, uid or None, revision or None, propagation or "", None, dry_run)
        entry, gone = deletion.delete(self._api.verbs, operation, options)
        await self._wait_until_durable()
        return deletion.response_body(operation.kind, entry, gone) or in_version(
            operation.kind, operation.version, entry.tree
        )
