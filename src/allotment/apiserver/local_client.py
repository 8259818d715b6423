"""The in-process client: calls the API's verbs directly, without HTTP.

Reads return the store's own trees, which callers must not change. Writes are validated strictly. Calls return when
their result is durable, except for a client with a :class:`TimeSlice`: it belongs to the process that owns the store,
so a crash that loses an unsynced write also ends the program that has read it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from functools import partial
from typing import Any, Final

import msgspec

from allotment.apiserver import api_errors, bodies, deletion, scale, virtual_resources
from allotment.apiserver import patch as patching
from allotment.apiserver.api import Api
from allotment.apiserver.conversion import in_version
from allotment.apiserver.kinds.kind import ServedKind, User
from allotment.apiserver.operation import Operation
from allotment.apiserver.outbound.conversions import convert_read
from allotment.apiserver.reads import paging
from allotment.apiserver.reads import watch as watching
from allotment.apiserver.reads.computed import readable
from allotment.apiserver.reads.selectors import parse_selection
from allotment.apiserver.request_options import DeleteOptions, ListOptions, WriteOptions
from allotment.apiserver.storage.store import Entry
from allotment.cluster.client import Listing, PatchKind, Propagation, Resource, WatchEvent
from allotment.model.trees import Tree

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def copy_unshared(tree: Any, stored: Any) -> Any:
    """Copy a tree, because its owner may change it later; subtrees shared with the stored object are not copied."""
    if tree is stored:
        return tree
    if type(tree) is dict and type(stored) is dict:
        return {name: copy_unshared(value, stored.get(name)) for name, value in tree.items()}
    return tree if type(tree) in _SCALARS else _decode(_encode(tree))


_SCALARS = frozenset({str, int, bool, float, type(None)})

#: Seconds of work after which clients that never wait yield to the event loop.
_TIME_SLICE: Final = 0.003


class TimeSlice:
    """Measures how long the in-process clients of an event loop have run without yielding to other tasks."""

    def __init__(self) -> None:
        self._start = 0.0

    async def yield_if_used_up(self) -> None:
        """Let other tasks run if the current slice has exceeded its time."""
        if not self._start:
            self._start = time.monotonic()
            asyncio.get_running_loop().call_soon(self._end_slice)
        elif time.monotonic() - self._start > _TIME_SLICE:
            await asyncio.sleep(0)

    def _end_slice(self) -> None:
        self._start = 0.0


class LocalClient:
    """A :class:`~allotment.cluster.client.Client` of an API in this process; see the module for ``time_slice``."""

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
        fields: str = "",
    ) -> Operation:  # fmt: skip
        kind = self._kind(resource)
        self._api.allow(self._user, verb, kind, namespace, name, subresource, fields)
        if subresource and subresource not in kind.subresources:
            raise api_errors.unknown_path()
        return Operation(kind, resource.version, namespace, name, self._user, self._manager, subresource, dry_run)

    async def _wait_until_durable(self, revision: int | None = None) -> None:
        """Return when the result may be given to the caller."""
        if self._time_slice is not None:
            await self._time_slice.yield_if_used_up()
        else:
            await self._api.store.durable(revision)

    async def _result(self, operation: Operation, entry: Entry) -> Tree:
        await self._wait_until_durable(entry.revision)
        await self._convert(operation, (entry,))
        return in_version(operation.kind, operation.version, entry.tree)

    async def _convert(self, operation: Operation, entries: Iterable[Entry]) -> None:
        """Have a webhook convert what is read."""
        if operation.kind.convert is not None:
            trees = [entry.tree for entry in entries]
            await convert_read(self._api.outbound, operation.kind, trees, operation.version)

    # --- reading -----------------------------------------------------------------------------------------------------

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Tree:
        """See :class:`~allotment.cluster.client.Client`."""
        operation = self._operation(resource, namespace, name, subresource, False, "get")
        entry = self._api.verbs.entry(operation)
        if subresource == "scale":
            await self._wait_until_durable(entry.revision)
            return scale.view(entry, operation.kind)
        return await self._result(operation, entry)

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0
    ) -> Listing:
        """All matching objects; without a network there is no need for pages, so ``limit`` is ignored."""
        operation = self._operation(resource, namespace, "", "", False, "list", fields)
        kind, version = operation.kind, operation.version
        selection = parse_selection(kind, version, labels, fields)
        if fields:
            await self._convert(operation, self._api.store.list(kind.store_bucket, namespace or None))
        reader = readable(self._api.store, kind, self._api.verbs.now)
        page = paging.page(reader, kind.store_bucket, namespace or None, ListOptions(), selection)
        await self._wait_until_durable(page.revision)
        await self._convert(operation, page.entries)
        if version == kind.storage_version and not kind.stored_as and kind.convert is None:
            return Listing([entry.tree for entry in page.entries], str(page.revision))
        return Listing([in_version(kind, version, entry.tree) for entry in page.entries], str(page.revision))

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent]:
        """Yield the changes after ``revision``."""
        operation = self._operation(resource, namespace, "", "", False, "watch", fields)
        kind, version = operation.kind, operation.version
        selection = parse_selection(kind, version, labels, fields)
        if fields:
            await self._convert(operation, self._api.store.list(kind.store_bucket, namespace or None))
        options = ListOptions(revision=int(revision or 0), watch=True, bookmarks=True)
        watch = watching.Watch(
            self._api.store,
            kind.store_bucket,
            namespace or None,
            options,
            selection,
            early=self._time_slice is not None,
            convert=partial(convert_read, self._api.outbound, kind, version=version),
        )
        batches = watch.batches()
        try:
            async for batch in batches:
                await self._convert(operation, (event.entry for event in batch if event.type != "BOOKMARK"))
                for event in batch:
                    yield WatchEvent(event.type, watching.event_tree(kind, version, event))
        finally:
            watch.close()
            await batches.aclose()

    # --- writing -----------------------------------------------------------------------------------------------------

    def _checked_copy(self, operation: Operation, tree: Tree, stored: Tree | None = None) -> Tree:
        """A validated copy of an object; unchanged parts are shared with the stored state."""
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
        """The stored object, or None if its parts cannot be reused in the operation's version."""
        kind = operation.kind
        entry = self._api.store.get(kind.store_bucket, operation.namespace, operation.name)
        if entry is None or (kind.convert is not None and entry.tree["apiVersion"] != operation.api_version):
            return None
        return entry.tree if in_version(kind, operation.version, entry.tree) is entry.tree else None

    async def create(
        self, resource: Resource, tree: Tree, namespace: str = "", *, name: str = "", subresource: str = "",
        dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Create an object or call a virtual resource."""
        namespace = namespace or (tree.get("metadata") or {}).get("namespace") or ""
        namespace = namespace if resource.namespaced else ""
        tree = bodies.in_namespace(tree, namespace)
        if subresource or resource.plural == "bindings" or not self._is_stored(resource):
            return await self._call(resource, tree, namespace, name, subresource, dry_run)
        operation = self._operation(resource, namespace, "", "", dry_run, "create")
        checked = self._checked_copy(operation, tree)
        verbs = self._api.verbs
        return await self._result(operation, await verbs.admitted(lambda: verbs.create(operation, checked)))

    def _is_stored(self, resource: Resource) -> bool:
        return self._kind(resource).verbs != ("create",)

    async def _call(
        self, resource: Resource, tree: Tree, namespace: str, name: str, subresource: str, dry_run: bool
    ) -> Tree:
        operation = self._operation(resource, namespace, name, subresource, dry_run, "create")
        result = await self._api.verbs.admitted(
            lambda: virtual_resources.call(self._api.verbs, self._api.access, operation, tree)
        )
        await self._wait_until_durable()
        return result

    async def update(self, resource: Resource, tree: Tree, *, subresource: str = "", dry_run: bool = False) -> Tree:
        """Replace an object."""
        meta = tree.get("metadata") or {}
        namespace = (meta.get("namespace") or "") if resource.namespaced else ""
        operation = self._operation(resource, namespace, meta.get("name") or "", subresource, dry_run, "update")
        if subresource == "scale":
            entry = await self._api.verbs.admitted(lambda: scale.write(self._api.verbs, operation, tree))
            await self._wait_until_durable(entry.revision)
            return scale.view(entry, operation.kind)
        if operation.kind.create_on_update:
            self._api.allow_new(self._user, operation.kind, namespace, operation.name)
        checked = self._checked_copy(operation, tree, self._stored_tree(operation))
        verbs = self._api.verbs
        return await self._result(operation, await verbs.admitted(lambda: verbs.update(operation, checked)))

    async def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", *, kind: PatchKind = "merge",
        subresource: str = "", force: bool = False, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Change an object by a patch."""
        operation = self._operation(resource, namespace, name, subresource, dry_run, "patch")
        if subresource == "scale":
            verbs = self._api.verbs

            def write() -> Entry:
                view = scale.view(verbs.entry(operation), operation.kind)
                return scale.write(verbs, operation, patching.patched_scale(view, kind, patch))

            entry = await verbs.admitted(write)
            await self._wait_until_durable(entry.revision)
            return scale.view(entry, operation.kind)
        if kind == "apply":
            self._api.allow_new(self._user, operation.kind, namespace, name)
        options = WriteOptions(dry_run, self._manager, "Strict", force if kind == "apply" else None)
        # Values from the patch become part of the object, so they are copied, too.
        change = patching.DecodedPatch(copy_unshared(patch, None))
        entry, _ = await self._api.verbs.admitted(
            lambda: patching.patch(self._api.verbs, operation, kind, change, options)
        )
        return await self._result(operation, entry)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, uid: str = "", revision: str = "",
        grace_seconds: int | None = None, propagation: Propagation | None = None, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Delete an object."""
        operation = self._operation(resource, namespace, name, "", dry_run, "delete")
        options = DeleteOptions(grace_seconds, uid or None, revision or None, propagation or "", None, dry_run)
        entry, is_deleted = await self._api.verbs.admitted(lambda: deletion.delete(self._api.verbs, operation, options))
        await self._wait_until_durable()
        status = deletion.response_body(operation.kind, operation.version, entry, is_deleted)
        if status is not None:
            return status
        await self._convert(operation, (entry,))
        return in_version(operation.kind, operation.version, entry.tree)
