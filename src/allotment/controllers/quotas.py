"""ResourceQuota controller: the used amounts that ``kubectl describe quota`` shows.

Admission computes usage itself and enforces the limits; this controller only reports it. Namespaces without a quota
cost only a lookup.
"""

from __future__ import annotations

from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem, by_namespace
from allotment.cluster.client import Resource
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import CLAIMS, DEVICE_CLASSES, PODS, RESOURCE_QUOTAS, SERVICES, VOLUME_CLAIMS
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.kinds import BUILT_IN
from allotment.model.pod_resources import sum_amounts
from allotment.model.quantity import Quantity
from allotment.model.quota import is_in_scope, usage

#: Changes within this time are counted once.
_BUNCH_SECONDS: Final = 0.25
#: Kinds that are counted by more than their number of objects.
_MEASURED: Final = (PODS, CLAIMS, SERVICES, VOLUME_CLAIMS)

Key = tuple[str, str]


async def quotas(context: ProgramContext) -> None:
    """Run the ResourceQuota controller."""
    await _Quotas(context).run()


class _Quotas:
    def __init__(self, context: ProgramContext) -> None:
        self._context = context
        self._client = context.client_for("resourcequota-controller")
        self._quotas = context.caches.trees(RESOURCE_QUOTAS)
        self._in_space = self._quotas.index("namespace", by_namespace)
        self._classes = context.caches.trees(DEVICE_CLASSES)
        self._counted = {_bucket(resource): resource for resource in BUILT_IN if resource.namespaced}
        self._stops: dict[str, Any] = {}
        self._queue: WorkQueue[Key] = WorkQueue("quotas", self._sync, clock=context.clock, random=context.random)

    async def run(self) -> None:
        await self._classes.synced.wait()
        try:
            await run_queues([self._queue], [(self._quotas, self._changed)])
        finally:
            for stop in self._stops.values():
                stop()

    def _changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None:
            self._queue.add(new.key)

    def _cache(self, bucket: str) -> Cache[Any] | None:
        """The cache of a kind that a quota counts, watched from the first use."""
        resource = self._counted.get(bucket)
        if resource is None:
            return None
        cache = self._context.caches.trees(resource)
        if bucket not in self._stops:
            cache.index("namespace", by_namespace)
            self._stops[bucket] = cache.on_change(self._object_changed)
        return cache

    def _object_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        found = new or old
        assert found is not None
        for quota in self._in_space[found.namespace]:
            self._queue.add(quota.key, after=_BUNCH_SECONDS)

    async def _sync(self, key: Key) -> None:
        quota = self._quotas.item(*key)
        if quota is None:
            return
        hard: dict[str, str] = quota.spec.get("hard") or {}
        used: dict[str, Quantity] = {}
        for bucket in sorted(_buckets(hard)):
            cache = self._cache(bucket)
            if cache is None:
                continue
            await cache.synced.wait()
            found = cache.index("namespace", by_namespace)[quota.namespace]
            counted = sum_amounts(
                usage(bucket, item.tree, self._extended_name)
                for item in found
                if is_in_scope(quota.spec, bucket, item.tree)
            )
            for name, amount in counted.items():
                used[name] = used[name].add(amount) if name in used else amount
        status = {"hard": hard, "used": {name: str(used.get(name, Quantity.ZERO)) for name in hard}}
        if hard and status != quota.status:
            tree = {**quota.tree, "status": status}
            self._quotas.record_write(await self._client.update(RESOURCE_QUOTAS, tree, subresource="status"))

    def _extended_name(self, class_name: str) -> str:
        item = self._classes.item("", class_name)
        return str(item.spec.get("extendedResourceName") or "") if item else ""


def _bucket(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def _buckets(hard: dict[str, str]) -> set[str]:
    """The kinds that the keys of a quota may refer to."""
    found = {_bucket(resource) for resource in _MEASURED}
    for key in hard:
        found.add(key.removeprefix("count/"))
    return found
