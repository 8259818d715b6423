"""Namespace deletion: deletes the pods, then the other contents, then removes the namespace's finalizer.

Pods come first (KEP-5080), so that none runs without the NetworkPolicies and Secrets that it was started with.
Objects with finalizers or a grace period delay it; the conditions of the namespace report them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.client import Listing, Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import CUSTOM_KINDS, EVENTS, NAMESPACES, PODS
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.conditions import Answer, with_condition
from allotment.controllers.kinds import BUILT_IN, defined
from allotment.model.trees import Tree

_FINALIZER: Final = "kubernetes"
#: Seconds between checks of the remaining objects; pods, the most frequent ones, are watched.
_PAUSE: Final = 1.0
_AT_ONCE: Final = 64


async def namespaces(context: ProgramContext) -> None:
    """Run the namespace controller."""
    await _Namespaces(context).run()


class _Namespaces:
    def __init__(self, context: ProgramContext) -> None:
        self._client = context.client_for("namespace-controller")
        self._clock = context.clock
        self._namespaces = context.caches.trees(NAMESPACES)
        self._definitions = context.caches.trees(CUSTOM_KINDS)
        self._pods = context.caches.trees(PODS)
        self._queue: WorkQueue[str] = WorkQueue("namespaces", self._sync, clock=context.clock, random=context.random)

    async def run(self) -> None:
        await self._definitions.synced.wait()
        await run_queues([self._queue], [(self._namespaces, self._changed), (self._pods, self._pod_changed)])

    def _changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None and new.deleting:
            self._queue.add(new.name)

    def _pod_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is None and old is not None:
            namespace = self._namespaces.item("", old.namespace)
            if namespace is not None and namespace.deleting:
                self._queue.add(old.namespace)

    async def _sync(self, name: str) -> float | None:
        namespace = self._namespaces.item("", name)
        if namespace is None or not namespace.deleting:
            return None
        if _FINALIZER not in (namespace.spec.get("finalizers") or ()) or not await self._is_ending(namespace):
            return None
        left: Counter[str] = Counter()
        held: Counter[str] = Counter()
        failures: list[str] = []
        resources = [resource for resource in (*BUILT_IN, EVENTS, *self._defined()) if resource.namespaced]
        await self._delete_all((PODS,), name, left, held, failures)
        if left:
            # The conditions report what remains only once all kinds have been processed.
            await self._update_conditions(namespace, Counter(), Counter(), failures)
            return _PAUSE
        await self._delete_all((each for each in resources if each != PODS), name, left, held, failures)
        if left or failures:
            await self._update_conditions(namespace, left, held, failures)
            return _PAUSE
        namespace = self._namespaces.item("", name)
        if namespace is not None:
            finalizers = [name for name in namespace.spec.get("finalizers") or () if name != _FINALIZER]
            spec = {**namespace.spec, "finalizers": finalizers}
            try:
                await self._client.update(NAMESPACES, {**namespace.tree, "spec": spec}, subresource="finalize")
            except StatusError as error:
                if error.code != 404:
                    raise
        return None

    async def _is_ending(self, namespace: CachedItem[Any]) -> bool:
        """Whether the namespace still exists, read from the API: a new one of the same name must not be emptied."""
        try:
            tree = await self._client.get(NAMESPACES, namespace.name)
        except StatusError as error:
            if error.code != 404:
                raise
            return False
        return bool(tree["metadata"].get("uid", "") == namespace.uid)

    def _defined(self) -> list[Resource]:
        return [resource for item in self._definitions.items() for resource in defined(item)]

    async def _delete_all(
        self, resources: Iterable[Resource], namespace: str, left: Counter[str], held: Counter[str],
        failures: list[str],
    ) -> None:  # fmt: skip
        """Delete all objects of some resources; count those that remain, and collect the errors."""
        for resource in resources:
            try:
                await self._delete_objects(resource, namespace, left, held)
            except StatusError as error:
                failures.append(f"{resource.plural}: {error}")

    async def _delete_objects(
        self, resource: Resource, namespace: str, left: Counter[str], held: Counter[str]
    ) -> None:  # fmt: skip
        found = await self._list(resource, namespace)
        if not found.items:
            return
        waiting = [tree for tree in found.items if "deletionTimestamp" not in tree["metadata"]]
        for start in range(0, len(waiting), _AT_ONCE):
            await asyncio.gather(
                *(self._delete(resource, namespace, tree) for tree in waiting[start : start + _AT_ONCE])
            )
        for tree in (await self._list(resource, namespace)).items:
            left[f"{resource.plural}.{resource.group}"] += 1
            for finalizer in tree["metadata"].get("finalizers") or ():
                held[finalizer] += 1

    async def _list(self, resource: Resource, namespace: str) -> Listing:
        try:
            return await self._client.list(resource, namespace)
        except StatusError as error:
            if error.code != 404:
                raise
            return Listing((), "")  # not served, so there are no objects

    async def _delete(self, resource: Resource, namespace: str, tree: Tree) -> None:
        try:
            await self._client.delete(
                resource, tree["metadata"]["name"], namespace, uid=tree["metadata"]["uid"], propagation="Background"
            )
        except StatusError as error:
            if error.code not in (404, 409):
                raise

    async def _update_conditions(
        self, namespace: CachedItem[Any], left: Counter[str], held: Counter[str], failures: list[str]
    ) -> None:
        """Set the conditions that ``kubectl describe namespace`` shows while deletion is blocked."""
        now = self._clock.now()
        conditions = namespace.status.get("conditions")

        def set_condition(type: str, bad: bool, reason: str, good: str, message: str, fine: str) -> None:
            nonlocal conditions
            answer: Answer = "True" if bad else "False"
            conditions = with_condition(
                conditions, type, answer, reason if bad else good, message if bad else fine, now=now
            )

        # The kinds are known without discovery, so that finding them cannot fail.
        set_condition(
            "NamespaceDeletionDiscoveryFailure", False, "", "ResourcesDiscovered", "",
            "All resources successfully discovered",
        )  # fmt: skip
        set_condition(
            "NamespaceDeletionGroupVersionParsingFailure", False, "", "ParsedGroupVersions", "",
            "All legacy kube types successfully parsed",
        )  # fmt: skip
        set_condition(
            "NamespaceDeletionContentFailure", bool(failures), "ContentDeletionFailed", "ContentDeleted",
            f"Failed to delete all resource types, {len(failures)} remaining: {', '.join(failures)}",
            "All content successfully deleted, may be waiting on finalization",
        )  # fmt: skip
        kinds = ", ".join(f"{kind} has {count} resource instances" for kind, count in sorted(left.items()))
        set_condition(
            "NamespaceContentRemaining", bool(left), "SomeResourcesRemain", "ContentRemoved",
            f"Some resources are remaining: {kinds}", "All content successfully removed",
        )  # fmt: skip
        finalizers = ", ".join(
            f"{finalizer} in {count} resource instances" for finalizer, count in sorted(held.items())
        )
        set_condition(
            "NamespaceFinalizersRemaining", bool(held), "SomeFinalizersRemain", "ContentHasNoFinalizers",
            f"Some content in the namespace has finalizers remaining: {finalizers}",
            "All content-preserving finalizers finished",
        )  # fmt: skip
        if conditions != namespace.status.get("conditions"):
            status = {**namespace.status, "conditions": conditions}
            try:
                tree = await self._client.update(NAMESPACES, {**namespace.tree, "status": status}, subresource="status")
            except StatusError as error:
                if error.code not in (404, 409):
                    raise
            else:
                self._namespaces.record_write(tree)
