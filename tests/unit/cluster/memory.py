"""A cluster in memory: the verbs of ``Client``, finalizers and generations, and no other rules of a real one."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

from allotment.cluster.client import Listing, PatchKind, Propagation, Resource, WatchEvent
from allotment.cluster.errors import StatusError, Unreachable
from allotment.model.trees import Tree


def refusal(code: int, reason: str, message: str = "") -> StatusError:
    return StatusError({"kind": "Status", "code": code, "reason": reason, "message": message or reason})


class MemoryClient:
    """Objects, a history, and watches of it. ``forget`` compacts, ``drop`` ends all watches, ``break_off`` as a server
    that is killed; ``backup`` makes what brings back the objects and the revision of now."""

    def __init__(self) -> None:
        self.objects: dict[tuple[Resource, str, str], Tree] = {}
        self.history: list[tuple[int, Resource, WatchEvent]] = []
        self.oldest = 0
        self.lists = 0
        self.refuse: list[Exception] = []
        self.forbidden: set[Resource] = set()
        self.forbade: list[str] = []
        self.silent: set[Resource] = set()
        """Resources whose lists and watches fail at present."""
        self._numbers = itertools.count(1)
        self._revision = 0
        self._moved = asyncio.Event()
        self._generation = 0
        self._broken = False

    def _refused(self, resource: Resource | None = None) -> None:
        if self.refuse:
            raise self.refuse.pop(0)
        if resource is not None and resource in self.silent:
            raise Unreachable(f"{resource.plural} are unavailable")

    def _record(self, type_: Any, resource: Resource, tree: Tree) -> Tree:
        self._revision = next(self._numbers)
        tree = {**tree, "metadata": {**tree["metadata"], "resourceVersion": str(self._revision)}}
        self.history.append((self._revision, resource, WatchEvent(type_, tree)))
        self._moved.set()
        self._moved = asyncio.Event()
        return tree

    def forget(self) -> None:
        self.oldest = self._revision
        self.history.clear()

    def drop(self) -> None:
        self._generation += 1
        self._moved.set()
        self._moved = asyncio.Event()

    def break_off(self) -> None:
        self._broken = True
        self.drop()

    def backup(self) -> Callable[[], None]:
        objects, revision = dict(self.objects), self._revision

        def restore() -> None:
            self.objects, self._revision = dict(objects), revision
            self._numbers = itertools.count(revision + 1)
            self.history = [event for event in self.history if event[0] <= revision]
            self.break_off()

        return restore

    def summary(self) -> str:
        """The objects with their state, for the message of a test that waits without success."""
        objects = ((key[0].plural, key[2], tree) for key, tree in self.objects.items())
        lines = (
            f"{kind}/{name}: {tree.get('status') or tree.get('note') or tree.get('data')}"
            for kind, name, tree in objects
        )
        return "\n".join(line[:300] for line in lines)

    def put(self, resource: Resource, tree: Tree) -> Tree:
        """Create or replace."""
        metadata = tree["metadata"]
        key = (resource, metadata.get("namespace", ""), metadata["name"])
        known = self.objects.get(key)
        uid = metadata.get("uid") or (known["metadata"]["uid"] if known else f"uid-{next(self._numbers)}")
        tree = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            **tree,
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z", **metadata, "uid": uid},
        }
        self.objects[key] = self._record("MODIFIED" if known else "ADDED", resource, tree)
        return self.objects[key]

    def remove(self, resource: Resource, namespace: str, name: str) -> Tree:
        return self._record("DELETED", resource, self.objects.pop((resource, namespace, name)))

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Tree:
        self._refused()
        try:
            return self.objects[resource, namespace, name]
        except KeyError:
            raise refusal(404, "NotFound", f'{resource.plural} "{name}" not found') from None

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0
    ) -> Listing:
        self._refused(resource)
        if fields == "metadata.name=none":
            return Listing([], str(self._revision))
        self.lists += 1
        items = [
            tree
            for (kind, where, _), tree in sorted(self.objects.items(), key=lambda pair: pair[0][1:])
            if kind == resource and namespace in ("", where)
        ]
        return Listing(items, str(self._revision))

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent]:
        self._refused(resource)
        seen = int(revision)
        generation = self._generation
        self._broken = False
        while generation == self._generation:
            if seen < self.oldest:
                raise refusal(410, "Expired", "too old resource version")
            moved = self._moved
            for number, kind, event in tuple(self.history):
                if number > seen and kind == resource:
                    seen = number
                    yield event
            await moved.wait()
        if self._broken:
            raise Unreachable("it broke off")

    async def create(
        self, resource: Resource, tree: Tree, namespace: str = "", *, name: str = "", subresource: str = "",
        dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        self._refused()
        if resource in self.forbidden:
            # As a real one, it makes up a name and tells it.
            self.forbade.append(f"{resource.plural} {len(self.forbade)} is forbidden")
            raise refusal(403, "Forbidden", self.forbade[-1])
        metadata = dict(tree["metadata"])
        if resource.namespaced:
            metadata.setdefault("namespace", namespace)
        if "name" not in metadata:
            metadata["name"] = f"{metadata['generateName']}{next(self._numbers):05}"
        if (resource, metadata.get("namespace", ""), metadata["name"]) in self.objects:
            raise refusal(409, "AlreadyExists", f'{resource.plural} "{metadata["name"]}" already exists')
        return self.put(resource, {**copy.deepcopy(tree), "metadata": metadata})

    async def update(self, resource: Resource, tree: Tree, *, subresource: str = "", dry_run: bool = False) -> Tree:
        self._refused()
        metadata = tree["metadata"]
        known = await self.get(resource, metadata["name"], metadata.get("namespace", ""))
        if (
            metadata.get("resourceVersion", known["metadata"]["resourceVersion"])
            != known["metadata"]["resourceVersion"]
        ):
            raise refusal(409, "Conflict", "the object has been modified")
        return self._replace(resource, known, tree, subresource)

    def _replace(self, resource: Resource, known: Tree, tree: Tree, subresource: str) -> Tree:
        """Status and the rest are written apart; what nothing holds any more and shall go is gone."""
        if subresource == "finalize":
            new = {**known, "spec": tree["spec"]}
        else:
            new = {**known, "status": tree.get("status", {})} if subresource else {**known, **copy.deepcopy(tree)}
            if "annotations" in tree["metadata"]:  # a write to the status may change them
                new["metadata"] = {**new["metadata"], "annotations": tree["metadata"]["annotations"]}
        if not subresource and "status" in known:
            new["status"] = known["status"]
        if not subresource and "spec" in known and new["spec"] != known["spec"]:
            generation = known["metadata"].get("generation", 1) + 1
            new["metadata"] = {**new["metadata"], "generation": generation}
        if {**new, "metadata": {**new["metadata"], "resourceVersion": known["metadata"]["resourceVersion"]}} == known:
            return known
        new = self.put(resource, new)
        held = new["metadata"].get("finalizers") or (resource.plural == "namespaces" and new["spec"]["finalizers"])
        if "deletionTimestamp" in new["metadata"] and not held:
            self.remove(resource, new["metadata"].get("namespace", ""), new["metadata"]["name"])
        return new

    async def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", *, kind: PatchKind = "merge",
        subresource: str = "", force: bool = False, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        self._refused()
        known = await self.get(resource, name, namespace)
        uid = patch.get("metadata", {}).get("uid", "")
        if uid and uid != known["metadata"]["uid"]:
            raise refusal(409, "Conflict", "Precondition failed: UID in precondition")
        revision = patch.get("metadata", {}).get("resourceVersion", "")
        if revision and revision != known["metadata"]["resourceVersion"]:
            raise refusal(409, "Conflict", "the object has been modified")
        return self._replace(resource, known, _merged(known, patch), subresource)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, uid: str = "", revision: str = "",
        grace_seconds: int | None = None, propagation: Propagation | None = None, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        known = await self.get(resource, name, namespace)
        metadata = known["metadata"]
        if (uid and metadata["uid"] != uid) or (revision and metadata["resourceVersion"] != revision):
            raise refusal(409, "Conflict", "Precondition failed")
        finalizers = list(metadata.get("finalizers") or ())
        added = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}.get(propagation or "")
        if added and added not in finalizers:
            finalizers.append(added)
        if not finalizers:
            return self.remove(resource, namespace, name)
        if "deletionTimestamp" in metadata:
            return known
        metadata = {**metadata, "finalizers": finalizers, "deletionTimestamp": "2026-01-01T00:00:00Z"}
        return self.put(resource, {**known, "metadata": metadata})


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result
