"""The client of programs in this process: the verbs themselves, without bytes, sockets or paths between.

Reads give the store's own trees, shared by all. Writes are checked as strictly as kubectl's, for a program's slip is
its author's to mend. They return when they are durable, like any client's; but a program that has a :class:`Pace` lives
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
from allotment.apiserver.verbs import Ask
from allotment.cluster.client import Event, Listing, PatchKind, Propagation, Resource
from allotment.model.trees import Tree

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def copied(tree: Any, stored: Any) -> Any:
    """A copy, for whoever gave the tree may change it; what it shares with the stored one is not copied."""
    if tree is stored:
        return tree
    if type(tree) is dict and type(stored) is dict:
        return {name: copied(value, stored.get(name)) for name, value in tree.items()}
    return tree if type(tree) in _PLAIN else _decode(_encode(tree))


_PLAIN = frozenset({str, int, bool, float, type(None)})

#: Seconds of work after which programs that wait for nothing let everybody else have a turn.
_TURN: Final = 0.003


class Pace:
    """The programs of one event loop: how long this turn has been."""

    def __init__(self) -> None:
        self._began = 0.0

    async def kept(self) -> None:
        """Go on, after a turn of everybody else if this one has become long."""
        if not self._began:
            self._began = time.monotonic()
            asyncio.get_running_loop().call_soon(self._over)
        elif time.monotonic() - self._began > _TURN:
            await asyncio.sleep(0)

    def _over(self) -> None:
        self._began = 0.0


class LocalClient:
    """A :class:`~allotment.cluster.client.Client` on an API in this process; see the module for ``pace``."""

    def __init__(self, api: Api, user: User, manager: str, pace: Pace | None = None) -> None:
        self._api = api
        self._pace = pace
        self._user = user
        self._manager = manager

    def _kind(self, resource: Resource) -> ServedKind:
        kind = self._api.catalog.find(resource.group, resource.version, resource.plural)
        if kind is None:
            raise api_errors.unknown_path()
        return kind

    def _ask(
        self, resource: Resource, namespace: str, name: str, subresource: str, dry_run: bool, verb: str,
        sought: str = "",
    ) -> Ask:  # fmt: skip
        kind = self._kind(resource)
        self._api.allow(self._user, verb, kind, namespace, name, subresource, sought)
        if subresource and subresource not in kind.subresources:
            raise api_errors.unknown_path()
        return Ask(kind, resource.version, namespace, name, self._user, self._manager, subresource, dry_run)

    async def _settled(self, revision: int | None = None) -> None:
        """When an answer may be given."""
        if self._pace is not None:
            await self._pace.kept()
        else:
            await self._api.store.durable(revision)

    async def _done(self, ask: Ask, entry: Entry) -> Tree:
        await self._settled(entry.revision)
        return in_version(ask.kind, ask.version, entry.tree)

    # --- reading -----------------------------------------------------------------------------------------------------

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Tree:
        """One object."""
        ask = self._ask(resource, namespace, name, subresource, False, "get")
        entry = self._api.verbs.entry(ask)
        if subresource == "scale":
            await self._settled(entry.revision)
            return scale.view(entry, ask.kind)
        return await self._done(ask, entry)

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0
    ) -> Listing:
        """All objects. Pages are for clients on the other end of a wire; here one is enough."""
        ask = self._ask(resource, namespace, "", "", False, "list", exact_name(fields))
        kind, version = ask.kind, ask.version
        wanted = selection(kind, version, labels, fields)
        page = paging.page(self._api.store, kind.store_bucket, namespace or None, ListOptions(), wanted)
        await self._settled(page.revision)
        if version == kind.versions[0] and not kind.stored_as:
            return Listing([entry.tree for entry in page.entries], str(page.revision))
        return Listing([in_version(kind, version, entry.tree) for entry in page.entries], str(page.revision))

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Event]:
        """Changes after ``revision``."""
        ask = self._ask(resource, namespace, "", "", False, "watch", exact_name(fields))
        kind, version = ask.kind, ask.version
        wanted = selection(kind, version, labels, fields)
        options = ListOptions(revision=int(revision or 0), watch=True, bookmarks=True)
        watch = watching.Watch(
            self._api.store, kind.store_bucket, namespace or None, options, wanted, early=self._pace is not None
        )
        batches = watch.batches()
        try:
            async for batch in batches:
                for seen in batch:
                    yield Event(watching.event_type(seen), watching.seen_tree(kind, version, seen))
        finally:
            watch.close()
            await batches.aclose()

    # --- writing -----------------------------------------------------------------------------------------------------

    def _own(self, ask: Ask, tree: Tree, stored: Tree | None = None) -> Tree:
        """A checked copy, which shares with the stored state what the program has not touched."""
        copy = copied(tree, stored)
        bodies.of_kind(copy, ask.kind, ask.version)
        return bodies.checked(
            bodies.Decoded(copy), ask.kind, ask.version, "Strict", ask.warn, exact=False, stored=stored
        )

    def _stored(self, ask: Ask) -> Tree | None:
        """The stored state, as far as parts of it can stand in objects of the version that is asked for."""
        entry = self._api.store.get(ask.kind.store_bucket, ask.namespace, ask.name)
        return None if entry is None or in_version(ask.kind, ask.version, entry.tree) is not entry.tree else entry.tree

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
        ask = self._ask(resource, namespace, "", "", dry_run, "create")
        return await self._done(ask, self._api.verbs.create(ask, self._own(ask, tree)))

    def _is_stored(self, resource: Resource) -> bool:
        return self._kind(resource).verbs != ("create",)

    async def _call(
        self, resource: Resource, tree: Tree, namespace: str, name: str, subresource: str, dry_run: bool
    ) -> Tree:
        ask = self._ask(resource, namespace, name, subresource, dry_run, "create")
        answered = self._api.call(ask, tree)
        await self._settled()
        return answered

    async def update(self, resource: Resource, tree: Tree, *, subresource: str = "", dry_run: bool = False) -> Tree:
        """Replace an object."""
        meta = tree.get("metadata") or {}
        namespace = (meta.get("namespace") or "") if resource.namespaced else ""
        ask = self._ask(resource, namespace, meta.get("name") or "", subresource, dry_run, "update")
        if subresource == "scale":
            entry = scale.write(self._api.verbs, ask, tree)
            await self._settled(entry.revision)
            return scale.view(entry, ask.kind)
        if ask.kind.create_on_update:
            self._api.allow_new(self._user, ask.kind, namespace, ask.name)
        return await self._done(ask, self._api.verbs.update(ask, self._own(ask, tree, self._stored(ask))))

    async def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", *, kind: PatchKind = "merge",
        subresource: str = "", force: bool = False, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Change an object by a patch."""
        ask = self._ask(resource, namespace, name, subresource, dry_run, "patch")
        if subresource == "scale":
            wanted = patching.patched_scale(scale.view(self._api.verbs.entry(ask), ask.kind), kind, patch)
            entry = scale.write(self._api.verbs, ask, wanted)
            await self._settled(entry.revision)
            return scale.view(entry, ask.kind)
        if kind == "apply":
            self._api.allow_new(self._user, ask.kind, namespace, name)
        options = WriteOptions(dry_run, self._manager, "Strict", force if kind == "apply" else None)
        # Patched parts go into the object as they are: a copy, for the same reason as whole objects.
        entry, _ = patching.patch(self._api.verbs, ask, kind, copied(patch, None), options)
        return await self._done(ask, entry)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, uid: str = "", revision: str = "",
        grace_seconds: int | None = None, propagation: Propagation | None = None, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Delete an object."""
        ask = self._ask(resource, namespace, name, "", dry_run, "delete")
        options = DeleteOptions(grace_seconds, uid or None, revision or None, propagation or "", None, dry_run)
        entry, gone = deletion.delete(self._api.verbs, ask, options)
        await self._settled()
        return deletion.outcome(ask.kind, entry, gone) or in_version(ask.kind, ask.version, entry.tree)
