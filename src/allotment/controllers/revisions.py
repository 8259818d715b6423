"""ControllerRevisions: the history of a StatefulSet's or DaemonSet's pod templates, for rollbacks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext
from allotment.cluster.resources import CONTROLLER_REVISIONS
from allotment.controllers.adoption import Children
from allotment.controllers.pods import owner_reference
from allotment.controllers.template_hash import template_hash
from allotment.model.trees import Tree

#: Pod label with the revision of the pod.
HASH: Final = "controller-revision-hash"


class Revisions:
    """The revisions of one kind's objects."""

    def __init__(self, context: ProgramContext, client: Client, label: str) -> None:
        self._client = client
        self._label = label
        self._cache = context.caches.trees(CONTROLLER_REVISIONS)
        self._children = Children(self._cache, client)

    @property
    def cache(self) -> Any:
        """The cache whose synchronization controllers must await."""
        return self._cache

    def of(self, owner: CachedItem[Any]) -> list[CachedItem[Any]]:
        """The stored revisions of an owner, oldest first."""
        return sorted(self._children.known(owner.uid), key=lambda revision: (revision.tree["revision"], revision.name))

    async def newest(self, owner: CachedItem[Any]) -> CachedItem[Any]:
        """The revision of the current template; an earlier equal one gets the highest number again."""
        data = _sorted({"spec": {"template": {**owner.spec["template"], "$patch": "replace"}}})
        await self._children.of(owner)  # revisions remain for adoption if their owner was deleted without dependents
        known = self.of(owner)
        number = known[-1].tree["revision"] + 1 if known else 1
        same = next((revision for revision in reversed(known) if revision.tree.get("data") == data), None)
        if same is not None:
            if same is not known[-1]:
                return await self._write({**same.tree, "revision": number})
            return same
        collisions = owner.status.get("collisionCount") or 0
        while True:
            digest = template_hash(data, collisions)
            tree = {
                "kind": "ControllerRevision",
                "apiVersion": CONTROLLER_REVISIONS.api_version,
                "metadata": {
                    "name": f"{owner.name}-{digest}",
                    "namespace": owner.namespace,
                    "labels": {**(owner.spec["template"].get("metadata") or {}).get("labels", {}), self._label: digest},
                    "annotations": owner.metadata.get("annotations") or {},
                    "ownerReferences": [owner_reference(owner.tree)],
                },
                "data": data,
                "revision": number,
            }
            try:
                made = await self._client.create(CONTROLLER_REVISIONS, tree, owner.namespace)
            except StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
                existing = await self._client.get(CONTROLLER_REVISIONS, f"{owner.name}-{digest}", owner.namespace)
                if existing.get("data") == data:
                    return CachedItem(existing)
                collisions += 1
            else:
                self._cache.record_write(made)
                return CachedItem(made)

    async def forget(self, owner: CachedItem[Any], used: Iterable[str]) -> None:
        """Delete the oldest unused revisions beyond the limit."""
        limit = owner.spec.get("revisionHistoryLimit")
        names = set(used)
        spare = [revision for revision in self.of(owner) if revision.name not in names]
        for revision in spare[: max(len(spare) - (10 if limit is None else limit), 0)]:
            try:
                await self._client.delete(CONTROLLER_REVISIONS, revision.name, revision.namespace, uid=revision.uid)
            except StatusError as error:
                if error.code != 404:
                    raise
            self._cache.record_deletion(revision.tree)

    async def _write(self, tree: Tree) -> CachedItem[Any]:
        answer = await self._client.update(CONTROLLER_REVISIONS, tree)
        self._cache.record_write(answer)
        return CachedItem(answer)

    def digest_of(self, revision: CachedItem[Any]) -> str:
        """The hash in a revision's name."""
        return revision.labels.get(self._label, "")


def _sorted(value: Any) -> Any:
    """The value with sorted keys: upstream stores the data as bytes that Go has encoded, which clients compare."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def template_of(revision: CachedItem[Any]) -> Tree:
    """The pod template that a revision contains."""
    template = revision.tree["data"]["spec"]["template"]
    return {key: value for key, value in template.items() if key != "$patch"}
